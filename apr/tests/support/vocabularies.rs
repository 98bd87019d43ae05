//! Small vocabularies, written for tests.

use super::writer::{ARRAY, BOOL, I32, Writer, array, strings};

pub const NORMAL: i32 = 1;
pub const CONTROL: i32 = 3;
pub const USER_DEFINED: i32 = 4;

/// What GPT-2 spells a byte with, from the description of `bytes_to_unicode`: printable bytes
/// stand for themselves, the others are numbered from U+0100 in order.
pub fn gpt2_alphabet() -> Vec<String> {
    let printable = |b: u32| matches!(b, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    let letter = |b| {
        let code = if printable(b) {
            b
        } else {
            next += 1;
            next - 1
        };
        char::from_u32(code).unwrap().to_string()
    };
    (0..256).map(letter).collect()
}

pub const MERGES: [&str; 16] = [
    "h e",
    "l l",
    "he ll",
    "hell o",
    "Ġ w",
    "o r",
    "Ġw or",
    "l d",
    "Ġwor ld",
    "Ġ Ġ",
    "ĠĠ ĠĠ",
    "a a",
    "aa a",
    "aa aa",
    "Ã ©",
    "Ċ Ċ",
];

/// Byte-level BPE with all 256 bytes, [`MERGES`], one control and one user-defined token.
pub fn tiny_bpe(pre: &str) -> Writer {
    let mut tokens = gpt2_alphabet();
    tokens.extend(MERGES.iter().map(|merge| merge.replace(' ', "")));
    let mut tokens: Vec<(&str, i32)> = tokens.iter().map(|t| (t.as_str(), NORMAL)).collect();
    tokens.extend([("<|im_end|>", CONTROL), ("[user]", USER_DEFINED)]);
    bpe(pre, &tokens, &MERGES)
}

/// Byte-level BPE with these tokens and merges.
pub fn bpe(pre: &str, tokens: &[(&str, i32)], merges: &[&str]) -> Writer {
    let texts: Vec<&str> = tokens.iter().map(|(text, _)| *text).collect();
    let kinds: Vec<u8> = tokens
        .iter()
        .flat_map(|(_, kind)| kind.to_le_bytes())
        .collect();
    Writer::new()
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", pre)
        .kv("tokenizer.ggml.tokens", ARRAY, strings(&texts))
        .kv(
            "tokenizer.ggml.token_type",
            ARRAY,
            array(I32, tokens.len() as u64, &kinds),
        )
        .kv("tokenizer.ggml.merges", ARRAY, strings(merges))
        .kv("tokenizer.ggml.add_bos_token", BOOL, [0])
}
