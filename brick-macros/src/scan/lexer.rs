//! Just enough of Rust's lexical grammar to see past comments, strings and lifetimes.

/// One token: its text, and where it starts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    pub(super) start: usize,
    /// Where it ends: with the prefix of a raw identifier, `text` is shorter.
    pub(super) end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or keyword, `r#` taken off.
    Word,
    /// A string of any kind, quotes included.
    Text,
    /// A number, a character, a lifetime.
    Other,
    /// `(`, `[` or `{`.
    Open,
    /// `)`, `]` or `}`.
    Close,
    /// Any other character.
    Punct,
}

impl Token<'_> {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text && self.kind != Kind::Text
    }

    /// `r#name`.
    pub(super) fn is_raw(&self) -> bool {
        self.end - self.start > self.text.len()
    }
}

/// The tokens of a file, to its end or to the first thing that never ends.
pub(super) fn lex(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let mut tokens = Vec::with_capacity(source.len() / 4);
    let mut at = skip_shebang(source);
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let (kind, skip) = match byte {
            b' ' | b'\n' | b'\t' | b'\r' => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = find(bytes, at, b'\n');
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = block_comment(bytes, at);
                continue;
            }
            b'"' => (Kind::Text, {
                at = string(bytes, at);
                0
            }),
            b'\'' => (Kind::Other, {
                at = quote(source, at);
                0
            }),
            b'0'..=b'9' => (Kind::Other, {
                at = word(bytes, at);
                0
            }),
            b'(' | b'[' | b'{' => (Kind::Open, {
                at += 1;
                0
            }),
            b')' | b']' | b'}' => (Kind::Close, {
                at += 1;
                0
            }),
            _ if is_word(byte) => prefixed(bytes, &mut at),
            _ => (Kind::Punct, {
                at += 1;
                0
            }),
        };
        tokens.push(Token {
            kind,
            text: &source[start + skip..at],
            start,
            end: at,
        });
    }
    tokens
}

fn skip_shebang(source: &str) -> usize {
    let bom = if source.starts_with('\u{feff}') { 3 } else { 0 };
    let rest = &source[bom..];
    match rest.strip_prefix("#!") {
        Some(line) if !line.trim_start().starts_with('[') => bom + find(rest.as_bytes(), 0, b'\n'),
        _ => bom,
    }
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// The index of `wanted` from `at` on, or the end.
fn find(bytes: &[u8], at: usize, wanted: u8) -> usize {
    bytes[at..]
        .iter()
        .position(|&byte| byte == wanted)
        .map_or(bytes.len(), |offset| at + offset)
}

fn word(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|&byte| !is_word(byte))
        .map_or(bytes.len(), |offset| at + offset)
}

/// A word, or what a prefix makes of the next token: `r#x`, `r"…"`, `br#"…"#`, `c"…"`, `b'…'`.
/// Moves `at` behind it; with the kind, how many bytes to leave off its front.
fn prefixed(bytes: &[u8], at: &mut usize) -> (Kind, usize) {
    let start = *at;
    *at = word(bytes, start);
    let prefix = &bytes[start..*at];
    match (prefix, bytes.get(*at)) {
        (b"b" | b"c", Some(b'"')) => *at = string(bytes, *at),
        (b"r" | b"br" | b"cr", Some(b'"' | b'#')) => {
            let hashes = bytes[*at..]
                .iter()
                .take_while(|&&byte| byte == b'#')
                .count();
            if bytes.get(*at + hashes) != Some(&b'"') {
                // A raw identifier: another token follows its `#`.
                *at = word(bytes, *at + hashes);
                return (Kind::Word, prefix.len() + hashes);
            }
            *at = raw_string(bytes, *at + hashes, hashes);
        }
        (b"b", Some(b'\'')) => {
            *at = byte_char(bytes, *at);
            return (Kind::Other, 0);
        }
        _ => return (Kind::Word, 0),
    }
    (Kind::Text, 0)
}

/// Behind the string that opens at `at`.
fn string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Behind the raw string whose quote is at `at`.
fn raw_string(bytes: &[u8], at: usize, hashes: usize) -> usize {
    let mut at = at + 1;
    loop {
        at = find(bytes, at, b'"');
        if at >= bytes.len() {
            return bytes.len();
        }
        at += 1;
        if bytes[at..]
            .iter()
            .take(hashes)
            .filter(|&&byte| byte == b'#')
            .count()
            == hashes
        {
            return at + hashes;
        }
    }
}

fn byte_char(bytes: &[u8], at: usize) -> usize {
    let escape = usize::from(bytes.get(at + 1) == Some(&b'\\'));
    (find(bytes, (at + 2 + escape).min(bytes.len()), b'\'') + 1).min(bytes.len())
}

/// Behind the character or lifetime at `at`.
fn quote(source: &str, at: usize) -> usize {
    let mut rest = source[at + 1..].chars();
    match (rest.next(), rest.next()) {
        (Some('\\'), _) => byte_char(source.as_bytes(), at),
        (Some(ch), Some('\'')) => at + 2 + ch.len_utf8(),
        _ => word(source.as_bytes(), at + 1),
    }
}

/// Behind the block comment at `at`; they nest.
fn block_comment(bytes: &[u8], at: usize) -> usize {
    let (mut at, mut depth) = (at + 2, 1);
    while depth > 0 {
        match bytes.get(at..at + 2) {
            Some(b"/*") => (at, depth) = (at + 2, depth + 1),
            Some(b"*/") => (at, depth) = (at + 2, depth - 1),
            Some(_) => at += 1,
            None => return bytes.len(),
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::{Kind, lex};

    fn words(source: &str) -> Vec<&str> {
        lex(source)
            .iter()
            .filter(|token| token.kind == Kind::Word)
            .map(|token| token.text)
            .collect()
    }

    #[test]
    fn nothing_is_seen_inside_strings_and_comments() {
        assert_eq!(
            words(r##"a "b \" c" d r#"e " f"# g b"h" i br"j" k c"l" m"##),
            ["a", "d", "g", "i", "k", "m"]
        );
        assert_eq!(
            words("a // b\nc /* d /* e */ f */ g /// h\ni"),
            ["a", "c", "g", "i"]
        );
    }

    #[test]
    fn quotes_are_characters_or_lifetimes() {
        assert_eq!(
            words(r"a '{' b '\'' c 'd e '\u{1F600}' f b'\'' g '雪' h '_ i"),
            ["a", "b", "c", "e", "f", "g", "h", "i"]
        );
    }

    #[test]
    fn raw_identifiers_lose_their_prefix() {
        assert_eq!(words("r#type r##a"), ["type", "a"]);
    }

    #[test]
    fn what_never_ends_ends_the_file() {
        assert_eq!(words("a \"b"), ["a"]);
        assert_eq!(words("a /* b"), ["a"]);
        assert_eq!(words("a r#\"b\""), ["a"]);
        assert_eq!(words("a b'"), ["a"]);
        assert_eq!(words("a '\\"), ["a"]);
        assert_eq!(words("a \"b\\"), ["a"]);
    }

    #[test]
    fn a_shebang_is_no_code_but_an_inner_attribute_is() {
        assert_eq!(words("#!/usr/bin/env \"run\na"), ["a"]);
        assert_eq!(words("\u{feff}#![no_std]\na"), ["no_std", "a"]);
    }
}
