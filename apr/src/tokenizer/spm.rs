//! SentencePiece-style tokenisation by score, as llama.cpp does it for `"llama"` vocabularies
//! (`llm_tokenizer_spm_session` in llama-vocab.cpp).
//!
//! The text starts as one symbol per character. The pair of neighbours whose joined text is the
//! token with the best score is merged, until no pair makes a token; what then is no token goes
//! out byte by byte.

use super::TokenizerError;
use super::vocab::{TokenKind, Vocab, check_length, typed_array};
use crate::gguf::{Gguf, GgufError, ValueType};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

const SCORES: &str = "tokenizer.ggml.scores";
/// U+2581, which stands for a space in the vocabulary.
pub(super) const SPACE: &[u8] = "▁".as_bytes();

pub(super) struct Spm {
    scores: Vec<f32>,
    /// The token for each byte; the unknown token where the vocabulary has none.
    bytes: [Option<u32>; 256],
}

impl Spm {
    pub(super) fn from_gguf(
        gguf: &Gguf<'_>,
        vocab: &Vocab,
        unknown: Option<u32>,
    ) -> Result<Self, TokenizerError> {
        let array = typed_array(gguf, SCORES, ValueType::F32)?
            .ok_or_else(|| GgufError::MissingKey { key: SCORES.into() })?;
        check_length(SCORES, array, vocab.len())?;
        let scores: Vec<f32> = array.f32s().collect();
        if let Some((_, id)) = scores.iter().zip(0..).find(|(score, _)| score.is_nan()) {
            return Err(TokenizerError::Score { id });
        }
        check_byte_tokens(vocab)?;
        let bytes = std::array::from_fn(|byte| {
            vocab
                .id(format!("<0x{byte:02X}>").as_bytes())
                .or_else(|| vocab.id(&[byte as u8]))
                .or(unknown)
        });
        Ok(Self { scores, bytes })
    }

    /// Appends the tokens of `text`, in which spaces are already [`SPACE`].
    pub(super) fn encode(
        &self,
        vocab: &Vocab,
        text: &[u8],
        out: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let symbols = Merger::new(self, vocab, text).run();
        let mut next = (!symbols.is_empty()).then_some(0);
        while let Some(index) = next {
            let symbol = &symbols[index];
            let piece = &text[symbol.start..symbol.start + symbol.len];
            match vocab.id(piece) {
                Some(id) => out.push(id),
                None => self.encode_bytes(piece, out)?,
            }
            next = symbol.next;
        }
        Ok(())
    }

    fn encode_bytes(&self, piece: &[u8], out: &mut Vec<u32>) -> Result<(), TokenizerError> {
        for &byte in piece {
            out.push(self.bytes[usize::from(byte)].ok_or(TokenizerError::NoToken { byte })?);
        }
        Ok(())
    }
}

fn check_byte_tokens(vocab: &Vocab) -> Result<(), TokenizerError> {
    let bad = |&id: &u32| vocab.kind(id) == TokenKind::Byte && byte_of(vocab.text(id)).is_none();
    match (0..vocab.len()).find(bad) {
        None => Ok(()),
        Some(id) => Err(TokenizerError::ByteToken {
            id,
            text: String::from_utf8_lossy(vocab.text(id)).into_owned(),
        }),
    }
}

/// A stretch of the text that is one token, or one character that is none.
struct Symbol {
    prev: Option<usize>,
    next: Option<usize>,
    start: usize,
    /// 0 once it has been merged into its left neighbour.
    len: usize,
}

/// Two neighbours that could be merged.
struct Bigram {
    score: f32,
    left: usize,
    right: usize,
    /// Bytes of both when it was queued: if they differ now, one of them has changed since.
    len: usize,
}

impl Ord for Bigram {
    /// Best score first, then leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        let score = self.score.total_cmp(&other.score);
        score.then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Bigram {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bigram {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Bigram {}

struct Merger<'t> {
    spm: &'t Spm,
    vocab: &'t Vocab,
    text: &'t [u8],
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Bigram>,
}

impl<'t> Merger<'t> {
    fn new(spm: &'t Spm, vocab: &'t Vocab, text: &'t [u8]) -> Self {
        let mut symbols = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let len = char_len(text[start]).min(text.len() - start);
            let index = symbols.len();
            symbols.push(Symbol {
                prev: index.checked_sub(1),
                next: (start + len < text.len()).then_some(index + 1),
                start,
                len,
            });
            start += len;
        }
        Self {
            spm,
            vocab,
            text,
            symbols,
            queue: BinaryHeap::new(),
        }
    }

    /// Merges until nothing is left to merge. The first symbol stays the first.
    fn run(mut self) -> Vec<Symbol> {
        for right in 1..self.symbols.len() {
            self.queue_pair(Some(right - 1), Some(right));
        }
        while let Some(pair) = self.queue.pop() {
            let (left, right) = (&self.symbols[pair.left], &self.symbols[pair.right]);
            if left.len == 0 || right.len == 0 || left.len + right.len != pair.len {
                continue;
            }
            let (before, after) = (left.prev, right.next);
            self.symbols[pair.right].len = 0;
            self.symbols[pair.left].len = pair.len;
            self.symbols[pair.left].next = after;
            if let Some(after) = after {
                self.symbols[after].prev = Some(pair.left);
            }
            self.queue_pair(before, Some(pair.left));
            self.queue_pair(Some(pair.left), after);
        }
        self.symbols
    }

    /// Queues two neighbours if together they are a token.
    fn queue_pair(&mut self, left: Option<usize>, right: Option<usize>) {
        let (Some(left), Some(right)) = (left, right) else {
            return;
        };
        let start = self.symbols[left].start;
        let len = self.symbols[left].len + self.symbols[right].len;
        if let Some(id) = self.vocab.id(&self.text[start..start + len]) {
            self.queue.push(Bigram {
                score: self.spm.scores[id as usize],
                left,
                right,
                len,
            });
        }
    }
}

/// The byte that a byte token's text, `<0xHH>`, names.
fn byte_of(text: &[u8]) -> Option<u8> {
    let hex = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let hex = std::str::from_utf8(hex).ok()?;
    // `from_str_radix` would take a sign.
    let is_byte = hex.len() == 2 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    u8::from_str_radix(hex, 16).ok().filter(|_| is_byte)
}

/// Appends the bytes that a token stands for, spaces for [`SPACE`].
pub(super) fn decode(kind: TokenKind, text: &[u8], out: &mut Vec<u8>) {
    if kind == TokenKind::Byte {
        // Spm::from_gguf has refused byte tokens of another form.
        out.extend(byte_of(text));
        return;
    }
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if let Some(tail) = rest.strip_prefix(SPACE) {
            out.push(b' ');
            rest = tail;
        } else {
            out.push(*first);
            rest = tail;
        }
    }
}

/// Bytes of the character that starts with `first`, by its upper half alone as llama.cpp does:
/// in text that is not UTF-8 a symbol may swallow bytes of the next character.
fn char_len(first: u8) -> usize {
    match first {
        0x00..=0xbf => 1,
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xff => 4,
    }
}
