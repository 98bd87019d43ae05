//! Arbitrary bytes as text, through both families of tokenizers: the pieces of the tokens, put
//! together, are the text, normalised as the family does.
//!
//! The first byte chooses the vocabulary and the options, the rest is the text.
#![no_main]

#[path = "../../tests/support/vocabularies.rs"]
#[allow(dead_code)]
mod vocabularies;
#[path = "../../tests/support/writer.rs"]
#[allow(dead_code)]
mod writer;

use apr::gguf::Gguf;
use apr::tokenizer::{EncodeOptions, Tokenizer, Utf8Stream};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// SentencePiece, without and with the space that goes before text.
static SPM: LazyLock<[Tokenizer; 2]> = LazyLock::new(|| {
    let mut bytes = include_bytes!("../../models/tiny-llama.gguf").to_vec();
    let prefix = writer::Layout::of(&bytes).value("tokenizer.ggml.add_space_prefix");
    [0, 1].map(|value| {
        bytes[prefix.start] = value;
        build(&bytes)
    })
});

/// Byte-level BPE, with each pre-tokenizer.
static BPE: LazyLock<[Tokenizer; 5]> = LazyLock::new(|| {
    ["gpt-2", "smollm", "qwen2", "llama-bpe", "default"]
        .map(|pre| build(&vocabularies::tiny_bpe(pre).bytes()))
});

fn build(file: &[u8]) -> Tokenizer {
    let gguf = Gguf::parse(file).expect("a good file");
    Tokenizer::from_gguf(&gguf).expect("a good vocabulary")
}

fn spaced(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        match rest.strip_prefix("▁".as_bytes()) {
            Some(tail) => {
                out.push(b' ');
                rest = tail;
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    out
}

/// One replacement character for each byte that belongs to no character.
fn replaced(bytes: &[u8]) -> Vec<u8> {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| '\u{fffd}'));
    }
    out.into_bytes()
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let (mut stream, mut text) = (Utf8Stream::new(), String::new());
    for &id in ids {
        stream.push(&tokenizer.decode(&[id]).expect("a known id"), &mut text);
    }
    stream.finish(&mut text);
    text
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, text)) = input.split_first() else {
        return;
    };
    let options = EncodeOptions {
        add_special: false,
        parse_special: choice & 0x80 != 0,
    };
    let choice = usize::from(choice & 0x7f) % (SPM.len() + BPE.len());
    let (tokenizer, spm) = match choice.checked_sub(SPM.len()) {
        None => (&SPM[choice], true),
        Some(bpe) => (&BPE[bpe], false),
    };
    let ids = tokenizer
        .encode(text, options)
        .expect("every byte has a token");
    let bytes = tokenizer.decode(&ids).expect("encode gives known ids");
    assert_eq!(streamed(tokenizer, &ids), String::from_utf8_lossy(&bytes));
    match (spm, choice) {
        (true, 0) => assert_eq!(spaced(&bytes), spaced(text)),
        // A space goes before the text and after each special token.
        (true, _) => {
            let (bytes, text) = (spaced(&bytes), spaced(text));
            let others = |bytes: &[u8]| -> Vec<u8> {
                bytes.iter().copied().filter(|&b| b != b' ').collect()
            };
            assert_eq!(others(&bytes), others(&text));
            let specials = ids.iter().filter(|id| is_special(tokenizer, **id)).count();
            let added = bytes.len().saturating_sub(text.len());
            assert!(
                added <= specials + 1,
                "{added} spaces for {specials} special tokens"
            );
        }
        (false, _) => assert_eq!(bytes, replaced(text)),
    }
});

fn is_special(tokenizer: &Tokenizer, id: u32) -> bool {
    use apr::tokenizer::TokenKind::{Control, Unknown, UserDefined};
    matches!(tokenizer.kind(id), Some(Control | Unknown | UserDefined))
}
