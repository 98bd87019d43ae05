//! The tokenizers against slow and obvious versions of the same rules, on random text.
#![allow(missing_docs)]

mod support;

use apr::gguf::{Array, Gguf, Value};
use apr::tokenizer::{EncodeOptions, Tokenizer, Utf8Stream};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::LazyLock;
use support::vocabularies::{CONTROL, MERGES, NORMAL, USER_DEFINED, bpe, gpt2_alphabet, tiny_bpe};
use support::{open, tiny_llama};

const PLAIN: EncodeOptions = EncodeOptions {
    add_special: false,
    parse_special: false,
};

fn tokenizer(bytes: &[u8]) -> Tokenizer {
    Tokenizer::from_gguf(&Gguf::parse(bytes).unwrap()).unwrap()
}

type Scores = HashMap<String, (u32, f32)>;

static TINY_LLAMA: LazyLock<(Tokenizer, Scores)> = LazyLock::new(|| {
    let file = open(&tiny_llama());
    let gguf = Gguf::parse(&file).unwrap();
    let list = |key| gguf.require::<Array<'_>>(key).unwrap().iter();
    let tokens = list("tokenizer.ggml.tokens").zip(list("tokenizer.ggml.scores"));
    let scores = tokens
        .zip(0..)
        .map(|((text, score), id)| match (text, score) {
            (Value::String(text), Value::F32(score)) => {
                (String::from_utf8(text.to_vec()).unwrap(), (id, score))
            }
            _ => panic!("{text:?} {score:?}"),
        });
    (tokenizer(&file), scores.collect())
});

static TINY_BPE: LazyLock<Tokenizer> = LazyLock::new(|| tokenizer(&tiny_bpe("gpt-2").bytes()));

/// Without merges, text that is no special token stays single letters.
static ONLY_SPECIAL: LazyLock<Tokenizer> = LazyLock::new(|| {
    let letters = [("a", NORMAL), ("b", NORMAL), ("c", NORMAL)];
    let vocabulary = bpe("gpt-2", &[&SPECIAL[..], &letters].concat(), &[]);
    tokenizer(&vocabulary.bytes())
});

/// SentencePiece: merge the best-scored pair, the leftmost of equals, until there is none.
fn slow_spm(scores: &Scores, text: &str) -> Vec<u32> {
    let escaped = format!("▁{}", text.replace(' ', "▁"));
    let mut symbols: Vec<String> = escaped.chars().map(String::from).collect();
    loop {
        let mut best: Option<(f32, usize)> = None;
        for i in 1..symbols.len() {
            if let Some(&(_, score)) = scores.get(&symbols[i - 1..=i].concat())
                && best.is_none_or(|(known, _)| score > known)
            {
                best = Some((score, i));
            }
        }
        let Some((_, i)) = best else { break };
        let right = symbols.remove(i);
        symbols[i - 1].push_str(&right);
    }
    let ids = |symbol: String| match scores.get(&symbol) {
        Some(&(id, _)) => vec![id],
        None => {
            let byte = |b: u8| scores[&format!("<0x{b:02X}>")].0;
            symbol.bytes().map(byte).collect()
        }
    };
    symbols.into_iter().flat_map(ids).collect()
}

/// BPE on one word: apply the first merge of the list that applies, leftmost, until none does.
fn slow_bpe(word: &str) -> Vec<String> {
    let alphabet = gpt2_alphabet();
    let mut symbols: Vec<String> = word
        .bytes()
        .map(|b| alphabet[usize::from(b)].clone())
        .collect();
    'again: loop {
        for merge in MERGES {
            let (left, right) = merge.split_once(' ').unwrap();
            for i in 1..symbols.len() {
                if symbols[i - 1] == left && symbols[i] == right {
                    symbols[i - 1].push_str(right);
                    symbols.remove(i);
                    continue 'again;
                }
            }
        }
        return symbols;
    }
}

/// Special tokens that overlap each other in every way.
const SPECIAL: [(&str, i32); 8] = [
    ("ab", USER_DEFINED),
    ("abc", CONTROL),
    ("bca", USER_DEFINED),
    ("bc", CONTROL),
    ("cabca", USER_DEFINED),
    ("aa", USER_DEFINED),
    ("aaa", CONTROL),
    ("abcabc", CONTROL),
];

/// llama.cpp's `tokenizer_st_partition`: for each special token, longest first, cut what is still
/// text at each place where it is found, from the left. The rest becomes single letters.
fn slow_partition(text: &str, parse_special: bool) -> Vec<String> {
    let mut order = SPECIAL.to_vec();
    order.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
    let mut fragments = vec![(text.to_owned(), false)];
    for (special, kind) in order {
        if kind == CONTROL && !parse_special {
            continue;
        }
        let cut = |(text, done): (String, bool)| {
            if done {
                return vec![(text, true)];
            }
            let mut out = Vec::new();
            for (i, part) in text.split(special).enumerate() {
                if i > 0 {
                    out.push((special.to_owned(), true));
                }
                out.push((part.to_owned(), false));
            }
            out
        };
        fragments = fragments.into_iter().flat_map(cut).collect();
    }
    let split = |(text, done): (String, bool)| match done {
        true => vec![text],
        false => text.chars().map(String::from).collect(),
    };
    fragments.into_iter().flat_map(split).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn spm_merges_best_first(text in "(hello| world| the|  |and|llo|he|é|日本|[a-zé🦙 ]){0,12}") {
        let expected = match text.is_empty() {
            true => Vec::new(),
            false => slow_spm(&TINY_LLAMA.1, &text),
        };
        prop_assert_eq!(TINY_LLAMA.0.encode(&text, PLAIN).unwrap(), expected);
    }

    #[test]
    fn bpe_merges_in_list_order(word in "( |\n|)(hello|a{1,7}|é|wor|ld|[a-z])+") {
        // A leading space or newline and letters are at most two words; a newline is its own.
        let (head, rest) = match word.strip_prefix('\n') {
            Some(rest) => ("\n", rest),
            None => ("", word.as_str()),
        };
        let expected = [slow_bpe(head), slow_bpe(rest)].concat();
        let tokenizer = &*TINY_BPE;
        let found = tokenizer.encode(&word, PLAIN).unwrap();
        let alphabet = gpt2_alphabet();
        let spell = |id: &u32| {
            let bytes = tokenizer.decode(&[*id]).unwrap();
            bytes.iter().map(|b| alphabet[usize::from(*b)].as_str()).collect::<String>()
        };
        prop_assert_eq!(found.iter().map(spell).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn special_tokens_cut_longest_first(text in "[abc]{0,24}", parse_special: bool) {
        let options = EncodeOptions { add_special: false, parse_special };
        let found = ONLY_SPECIAL.encode(&text, options).unwrap();
        let piece = |id: &u32| String::from_utf8(ONLY_SPECIAL.decode(&[*id]).unwrap()).unwrap();
        let found: Vec<String> = found.iter().map(piece).collect();
        prop_assert_eq!(found, slow_partition(&text, parse_special));
    }

    #[test]
    fn utf8_stream_is_lossy_conversion_in_pieces(
        parts in proptest::collection::vec(part(), 0..12),
    ) {
        let whole = parts.concat();
        let whole = String::from_utf8_lossy(&whole);
        let (mut stream, mut text) = (Utf8Stream::new(), String::new());
        for part in &parts {
            stream.push(part, &mut text);
            // What is out is whole and final; at most an unfinished character is held.
            prop_assert!(whole.starts_with(&text));
        }
        stream.finish(&mut text);
        prop_assert_eq!(text, whole);
    }
}

/// llama.cpp fills its map from text to id in order, so of equal texts the last one stays.
#[test]
fn of_two_tokens_with_one_text_the_later_is_found() {
    let vocabulary = bpe("gpt-2", &[("a", NORMAL), ("b", NORMAL), ("a", NORMAL)], &[]);
    let tokenizer = tokenizer(&vocabulary.bytes());
    assert_eq!(tokenizer.encode("aba", PLAIN).unwrap(), [2, 1, 2]);
    assert_eq!(tokenizer.decode(&[0, 1, 2]).unwrap(), b"aba");
}

/// Bytes around the edges of UTF-8, and pieces of real characters.
fn part() -> impl Strategy<Value = Vec<u8>> {
    let edges = prop::sample::select(vec![
        0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe2, 0xa0, 0x96, 0x81, 0xed, 0xef,
        0xf0, 0x9f, 0xa6, 0x99, 0xf4, 0x8f, 0x90, 0xff,
    ]);
    let characters = prop::sample::select(vec!["é", "▁", "🦙", "a", "\u{10ffff}"]);
    prop_oneof![
        proptest::collection::vec(edges, 0..6),
        characters.prop_map(|c| c.as_bytes().to_vec()),
        (characters_cut(), any::<bool>()).prop_map(|((head, tail), first)| match first {
            true => head,
            false => tail,
        }),
    ]
}

fn characters_cut() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    (1..4usize).prop_map(|at| {
        let (head, tail) = "🦙".as_bytes().split_at(at);
        (head.to_vec(), tail.to_vec())
    })
}
