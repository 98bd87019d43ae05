//! Pre-tokenizers: how text is cut into words before byte-pair encoding.
//!
//! Each is a regular expression in llama.cpp (`llm_tokenizer_bpe` in llama-vocab.cpp), written
//! out here as a function because all need look-ahead. The tests compare them with those
//! expressions, run by a backtracking engine.

use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// A rule for cutting text into words, by its name in `tokenizer.ggml.pre`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreTokenizer {
    Gpt2,
    Smollm,
    Llama3,
    Qwen2,
    Default,
}

/// The names that files use. Several stand for one rule.
const NAMES: [(&str, PreTokenizer); 9] = [
    ("default", PreTokenizer::Default),
    ("gpt-2", PreTokenizer::Gpt2),
    ("smollm", PreTokenizer::Smollm),
    ("starcoder", PreTokenizer::Smollm),
    ("llama-bpe", PreTokenizer::Llama3),
    ("llama3", PreTokenizer::Llama3),
    ("llama-v3", PreTokenizer::Llama3),
    ("qwen2", PreTokenizer::Qwen2),
    ("deepseek-r1-qwen", PreTokenizer::Qwen2),
];

/// The names that are known, for messages.
pub(super) fn known_names() -> String {
    let quoted: Vec<String> = NAMES.iter().map(|(name, _)| format!("{name:?}")).collect();
    quoted.join(", ")
}

impl PreTokenizer {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        NAMES.iter().find(|(n, _)| *n == name).map(|&(_, pre)| pre)
    }

    /// Whether a word that is a token is taken whole, whatever the merges would make of it.
    pub(super) fn ignores_merges(self) -> bool {
        self == Self::Llama3
    }

    /// Whether texts start with BOS where the file does not say.
    pub(super) fn adds_bos(self) -> bool {
        self == Self::Llama3
    }

    /// Calls `word` with each word of `text`, in order; together they are all of it.
    pub(super) fn split<'t>(self, text: &'t str, word: &mut impl FnMut(&'t str)) {
        match self {
            Self::Gpt2 => cut(text, gpt2, word),
            Self::Llama3 => cut(text, |t| cased(t, 3), word),
            Self::Qwen2 => cut(text, |t| cased(t, 1), word),
            // `\p{N}` first, the GPT-2 expression on what is between.
            Self::Smollm => isolate(text, |t| first(t, is_number), &mut |part| {
                cut(part, gpt2, word);
            }),
            // Four expressions, each on the pieces that the one before has left.
            Self::Default => isolate(text, |t| run(t, is_symbol), &mut |part| {
                cut(part, gpt2, &mut |part| {
                    isolate(part, |t| run(t, is_number), &mut |part| {
                        isolate(part, three_digits, word);
                    });
                });
            }),
        }
    }
}

/// Cuts all of `text` into words; `next` gives the bytes of the first word of what is left, at
/// least one character.
fn cut<'t>(mut text: &'t str, next: impl Fn(&str) -> usize, word: &mut impl FnMut(&'t str)) {
    while !text.is_empty() {
        let (head, rest) = text.split_at(next(text));
        word(head);
        text = rest;
    }
}

/// Makes what `matched` finds words of their own, and so what lies between them. `matched` gives
/// the bytes of a match at the start of what is left, 0 if there is none.
fn isolate<'t>(text: &'t str, matched: impl Fn(&str) -> usize, word: &mut impl FnMut(&'t str)) {
    let mut from = 0;
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let len = matched(&text[at..]);
        if len == 0 {
            at += c.len_utf8();
            continue;
        }
        if from < at {
            word(&text[from..at]);
        }
        word(&text[at..at + len]);
        at += len;
        from = at;
    }
    if from < at {
        word(&text[from..at]);
    }
}

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
fn gpt2(text: &str) -> usize {
    let contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    if let Some(found) = contractions.iter().find(|c| text.starts_with(*c)) {
        return found.len();
    }
    let space = usize::from(text.starts_with(' '));
    for class in [is_letter, is_number, is_other] {
        let len = run(&text[space..], class);
        if len > 0 {
            return space + len;
        }
    }
    spaces(text)
}

/// The expression of Llama 3, with `digits` = 3, and of Qwen 2, with 1:
/// `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
/// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
fn cased(text: &str, digits: usize) -> usize {
    let contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
    let starts = |c: &str| {
        let head = text.get(..c.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(c))
    };
    if let Some(found) = contractions.into_iter().find(|c| starts(c)) {
        return found.len();
    }
    let lead = first(text, |c| !is_letter(c) && !is_number(c) && !is_newline(c));
    let letters = run(&text[lead..], is_letter);
    if letters > 0 {
        return lead + letters;
    }
    if first(text, is_number) > 0 {
        return text
            .chars()
            .take(digits)
            .take_while(|&c| is_number(c))
            .map(char::len_utf8)
            .sum();
    }
    let space = usize::from(text.starts_with(' '));
    let other = run(&text[space..], is_other);
    if other > 0 {
        return space + other + run(&text[space + other..], is_newline);
    }
    let white = &text[..run(text, char::is_whitespace)];
    match white.rfind(is_newline) {
        Some(at) => at + 1,
        None => spaces(text),
    }
}

/// `\s+(?!\S)|\s+`: whitespace, but the last of it goes with the word that follows, unless it is
/// all there is.
fn spaces(text: &str) -> usize {
    let white = run(text, char::is_whitespace);
    let last = text[..white].chars().next_back().map_or(0, char::len_utf8);
    if white < text.len() && white > last {
        white - last
    } else {
        white
    }
}

/// `[0-9][0-9][0-9]`
fn three_digits(text: &str) -> usize {
    let digits = text.bytes().take(3).filter(u8::is_ascii_digit).count();
    if digits == 3 { 3 } else { 0 }
}

/// Bytes of the characters at the start that are in `class`.
fn run(text: &str, class: impl Fn(char) -> bool) -> usize {
    text.find(|c| !class(c)).unwrap_or(text.len())
}

/// Bytes of the first character if it is in `class`, else 0.
fn first(text: &str, class: impl Fn(char) -> bool) -> usize {
    let c = text.chars().next().filter(|&c| class(c));
    c.map_or(0, char::len_utf8)
}

/// `[\r\n]`
fn is_newline(c: char) -> bool {
    c == '\r' || c == '\n'
}

/// `\p{L}`. (`char::is_alphabetic` is another, wider set.)
fn is_letter(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    c.general_category_group() == GeneralCategoryGroup::Letter
}

/// `\p{N}`
fn is_number(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_digit();
    }
    c.general_category_group() == GeneralCategoryGroup::Number
}

/// `[^\s\p{L}\p{N}]`
fn is_other(c: char) -> bool {
    !c.is_whitespace() && !is_letter(c) && !is_number(c)
}

/// `[\p{P}\$\+<=>\^~\|]`
fn is_symbol(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_punctuation() && c != '`';
    }
    c.general_category_group() == GeneralCategoryGroup::Punctuation
}

#[cfg(test)]
mod tests {
    use super::PreTokenizer;
    use fancy_regex::Regex;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    const GPT2: &str =
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
    const LLAMA3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    const QWEN2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

    /// The expressions of `llm_tokenizer_bpe` in llama-vocab.cpp, applied one after the other to
    /// the pieces that the one before has left.
    fn expressions(pre: PreTokenizer) -> &'static [&'static str] {
        match pre {
            PreTokenizer::Gpt2 => &[GPT2],
            PreTokenizer::Smollm => &[r"\p{N}", GPT2],
            PreTokenizer::Llama3 => &[LLAMA3],
            PreTokenizer::Qwen2 => &[QWEN2],
            PreTokenizer::Default => {
                &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"]
            }
        }
    }

    /// Compiled once: that takes longer than a thousand comparisons.
    static REGEXES: LazyLock<Vec<(PreTokenizer, Vec<Regex>)>> = LazyLock::new(|| {
        use PreTokenizer::{Default, Gpt2, Llama3, Qwen2, Smollm};
        let compiled = |pre| {
            let regexes = expressions(pre).iter().map(|e| Regex::new(e).unwrap());
            (pre, regexes.collect())
        };
        [Gpt2, Smollm, Llama3, Qwen2, Default].map(compiled).into()
    });

    fn by_regex(regexes: &[Regex], text: &str) -> Vec<String> {
        let mut pieces = vec![text.to_owned()];
        for regex in regexes {
            pieces = pieces
                .iter()
                .flat_map(|p| matches_and_gaps(regex, p))
                .collect();
        }
        pieces
    }

    fn matches_and_gaps(regex: &Regex, text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        let mut at = 0;
        for found in regex.find_iter(text) {
            let found = found.unwrap();
            pieces.extend([&text[at..found.start()], found.as_str()]);
            at = found.end();
        }
        pieces.push(&text[at..]);
        let kept = pieces.into_iter().filter(|p| !p.is_empty());
        kept.map(str::to_owned).collect()
    }

    fn by_hand(pre: PreTokenizer, text: &str) -> Vec<String> {
        let mut pieces = Vec::new();
        pre.split(text, &mut |piece| pieces.push(piece.to_owned()));
        pieces
    }

    /// Text in which the classes that the expressions tell apart meet often.
    fn text() -> impl Strategy<Value = String> {
        let common = "[ \t\r\n\u{a0}'sStTdDlLrReEvVmMxé你0-9½Ⅷ٣.,!$+`_\u{301}\u{200d}🦙]{0,24}";
        prop_oneof![3 => common, 1 => any::<String>()]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn cuts_as_the_regular_expressions_do(text in text()) {
            for (pre, regexes) in &*REGEXES {
                prop_assert_eq!(by_hand(*pre, &text), by_regex(regexes, &text), "{:?}", pre);
            }
        }
    }
}
