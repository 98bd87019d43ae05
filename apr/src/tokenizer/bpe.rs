//! Byte-level byte-pair encoding, for `"gpt2"` vocabularies (`llm_tokenizer_bpe_session` in
//! llama-vocab.cpp; originally encoder.py of GPT-2).
//!
//! A pre-tokenizer cuts the text into words. In each word every byte starts as a symbol, and
//! the pair of neighbours that comes first in the list of merges is merged, until none is left.

use super::TokenizerError;
use super::pre::PreTokenizer;
use super::vocab::{Vocab, typed_array};
use crate::gguf::{Gguf, GgufError, ValueType};
use hashbrown::HashMap;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MERGES: &str = "tokenizer.ggml.merges";

pub(super) struct Bpe {
    pre: PreTokenizer,
    /// The token of each single byte.
    bytes: [Option<u32>; 256],
    merges: HashMap<(u32, u32), Merge>,
}

/// What a pair of tokens becomes, and its place in the list: lower merges first.
#[derive(Clone, Copy)]
struct Merge {
    rank: u32,
    joined: u32,
}

impl Bpe {
    pub(super) fn from_gguf(
        gguf: &Gguf<'_>,
        vocab: &Vocab,
        pre: PreTokenizer,
    ) -> Result<Self, TokenizerError> {
        let array = typed_array(gguf, MERGES, ValueType::String)?
            .ok_or_else(|| GgufError::MissingKey { key: MERGES.into() })?;
        // A merge makes a token, so there are hardly more of them.
        let expected = array.len().min(vocab.len().into());
        let mut merges = HashMap::with_capacity(expected as usize);
        let mut next = 0;
        for (text, index) in array.strings().zip(0..) {
            let failed = |fault| TokenizerError::Merge {
                index,
                text: String::from_utf8_lossy(text).into_owned(),
                fault,
            };
            let rank = u32::try_from(index).map_err(|_| failed("there are too many before it"))?;
            let (pair, joined) = parse_merge(vocab, text, next).map_err(failed)?;
            next = joined.saturating_add(1);
            merges.entry(pair).or_insert(Merge { rank, joined });
        }
        let bytes = std::array::from_fn(|byte| {
            let mut utf8 = [0; 4];
            vocab.id(char_of(byte as u8).encode_utf8(&mut utf8).as_bytes())
        });
        Ok(Self { pre, bytes, merges })
    }

    /// Appends the tokens of `text`. Bytes that are not UTF-8 become U+FFFD, one for each.
    pub(super) fn encode(
        &self,
        vocab: &Vocab,
        text: &[u8],
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let text = replace_invalid(text);
        let mut word = Word::default();
        let mut failed = None;
        self.pre.split(&text, &mut |piece| {
            if failed.is_none() {
                failed = self.encode_word(vocab, piece, &mut word, out).err();
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn encode_word(
        &self,
        vocab: &Vocab,
        piece: &str,
        word: &mut Word,
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        if self.pre.ignores_merges() {
            let spelled: String = piece.bytes().map(char_of).collect();
            if let Some(id) = vocab.id(spelled.as_bytes()) {
                out.push(id);
                return Ok(());
            }
        }
        word.fill(piece.as_bytes(), &self.bytes)?;
        word.merge(&self.merges);
        out.extend(word.tokens());
        Ok(())
    }
}

/// Splits `left right` at its first space (a token never starts with one, and is not empty). Joined
/// they may well be the token `guess`.
fn parse_merge(vocab: &Vocab, text: &[u8], guess: u32) -> Result<((u32, u32), u32), &'static str> {
    let space = text.iter().skip(1).position(|&b| b == b' ');
    let (left, right) = match space {
        Some(at) => (&text[..at + 1], &text[at + 2..]),
        None => return Err("no space between two tokens"),
    };
    let left_id = vocab.id(left).ok_or("its left part is not a token")?;
    let right_id = vocab.id(right).ok_or("its right part is not a token")?;
    let joined = vocab.joined_id(left, right, guess);
    let joined = joined.ok_or("its parts joined are not a token")?;
    Ok(((left_id, right_id), joined))
}

/// The symbols of one word, kept between words for its memory.
#[derive(Default)]
struct Word {
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Reverse<Pair>>,
}

#[derive(Clone, Copy)]
struct Symbol {
    id: u32,
    prev: Option<usize>,
    next: Option<usize>,
    merged_away: bool,
}

/// Two neighbours that can merge. Field order is queue order: by rank, then leftmost.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    left: usize,
    right: usize,
    /// What the two were when queued: if they differ now, the pair is stale.
    ids: (u32, u32),
    joined: u32,
}

impl Word {
    fn fill(&mut self, word: &[u8], bytes: &[Option<u32>; 256]) -> Result<(), TokenizerError> {
        self.symbols.clear();
        for (index, &byte) in word.iter().enumerate() {
            let id = bytes[usize::from(byte)].ok_or(TokenizerError::NoToken { byte })?;
            self.symbols.push(Symbol {
                id,
                prev: index.checked_sub(1),
                next: (index + 1 < word.len()).then_some(index + 1),
                merged_away: false,
            });
        }
        Ok(())
    }

    fn merge(&mut self, merges: &HashMap<(u32, u32), Merge>) {
        self.queue.clear();
        for right in 1..self.symbols.len() {
            self.queue_pair(merges, Some(right - 1), Some(right));
        }
        while let Some(Reverse(pair)) = self.queue.pop() {
            let (left, right) = (self.symbols[pair.left], self.symbols[pair.right]);
            if left.merged_away || right.merged_away || (left.id, right.id) != pair.ids {
                continue;
            }
            self.symbols[pair.right].merged_away = true;
            self.symbols[pair.left].id = pair.joined;
            self.symbols[pair.left].next = right.next;
            if let Some(after) = right.next {
                self.symbols[after].prev = Some(pair.left);
            }
            self.queue_pair(merges, left.prev, Some(pair.left));
            self.queue_pair(merges, Some(pair.left), right.next);
        }
    }

    fn queue_pair(
        &mut self,
        merges: &HashMap<(u32, u32), Merge>,
        left: Option<usize>,
        right: Option<usize>,
    ) {
        let (Some(left), Some(right)) = (left, right) else {
            return;
        };
        let ids = (self.symbols[left].id, self.symbols[right].id);
        if let Some(&Merge { rank, joined }) = merges.get(&ids) {
            self.queue.push(Reverse(Pair {
                rank,
                left,
                right,
                ids,
                joined,
            }));
        }
    }

    fn tokens(&self) -> impl Iterator<Item = u32> {
        let live = self.symbols.iter().filter(|s| !s.merged_away);
        live.map(|s| s.id)
    }
}

/// The text with each byte that belongs to no character replaced by U+FFFD, as llama.cpp does.
/// (It also lets overlong forms and surrogates through; they are not UTF-8 and are replaced.)
fn replace_invalid(text: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for chunk in text.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(out)
}

/// The character that spells a byte in the vocabulary (`bytes_to_unicode` in GPT-2's encoder):
/// printable Latin-1 stands for itself, the rest is numbered from U+0100 on.
fn char_of(byte: u8) -> char {
    let code = match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => u32::from(byte),
        0x00..=0x20 => 0x100 + u32::from(byte),
        0x7f..=0xa0 => 0x121 + u32::from(byte) - 0x7f,
        0xad => 0x143,
    };
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character of the vocabulary spells: the inverse of [`char_of`].
fn byte_of(c: char) -> Option<u8> {
    let code = u32::from(c);
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// Appends the bytes that a token's text spells. What is not in GPT-2's alphabet stands for
/// itself: there are vocabularies with plain text among the spelled.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) {
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match byte_of(c) {
                Some(byte) => out.push(byte),
                None => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out.extend_from_slice(chunk.invalid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alphabet_is_a_bijection_onto_the_first_characters() {
        let mut spelled: Vec<char> = (0..=255).map(char_of).collect();
        assert!((0..=255).all(|b| byte_of(char_of(b)) == Some(b)));
        // Known points of GPT-2's encoder.
        assert_eq!([b' ', b'\n', b'A', 0xad].map(char_of), ['Ġ', 'Ċ', 'A', 'Ń']);
        spelled.sort_unstable();
        spelled.dedup();
        assert_eq!(spelled.len(), 256);
    }
}
