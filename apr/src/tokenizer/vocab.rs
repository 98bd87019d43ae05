//! The vocabulary: texts, kinds and the way back from text to id.

use super::TokenizerError;
use crate::gguf::{Array, Gguf, GgufError, ValueType};
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";

/// What a token stands for (`enum llama_token_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenKind {
    /// Not told.
    Undefined,
    /// A piece of text.
    Normal,
    /// Stands for what no other token can say.
    Unknown,
    /// Steers the model (`<bos>`, `<|im_start|>`); never made from plain text unless asked for.
    Control,
    /// A piece of text that is always one token, whatever surrounds it.
    UserDefined,
    /// A slot without use.
    Unused,
    /// One byte, written `<0xHH>`.
    Byte,
}

impl TokenKind {
    /// The name shown to people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Normal => "normal",
            Self::Unknown => "unknown",
            Self::Control => "control",
            Self::UserDefined => "user-defined",
            Self::Unused => "unused",
            Self::Byte => "byte",
        }
    }

    fn from_id(id: i32) -> Option<Self> {
        Some(match id {
            0 => Self::Undefined,
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }
}

/// All tokens. Their texts lie in one arena, so that loading 262,144 of them is a copy and not
/// as many allocations.
pub(super) struct Vocab {
    arena: Vec<u8>,
    /// End of each token's text in the arena.
    ends: Vec<u32>,
    kinds: Vec<TokenKind>,
    /// Ids by the hash of their text.
    ids: HashTable<u32>,
    /// Whether no two tokens have the same text.
    distinct: bool,
    hasher: DefaultHashBuilder,
}

impl Vocab {
    pub(super) fn from_gguf(gguf: &Gguf<'_>) -> Result<Self, TokenizerError> {
        let tokens = typed_array(gguf, TOKENS, ValueType::String)?
            .ok_or_else(|| GgufError::MissingKey { key: TOKENS.into() })?;
        let too_many = || TokenizerError::VocabSize(tokens.len());
        let n = u32::try_from(tokens.len()).map_err(|_| too_many())?;
        if n == 0 || u32::try_from(tokens.size()).is_err() {
            return Err(too_many());
        }
        let mut vocab = Self {
            arena: Vec::with_capacity((tokens.size() - 8 * u64::from(n)) as usize),
            ends: Vec::with_capacity(n as usize),
            kinds: read_kinds(gguf, n)?,
            ids: HashTable::with_capacity(n as usize),
            distinct: true,
            hasher: DefaultHashBuilder::default(),
        };
        for (id, text) in (0..n).zip(tokens.strings()) {
            vocab.arena.extend_from_slice(text);
            // The arena is smaller than the array, whose size fits.
            vocab.ends.push(vocab.arena.len() as u32);
            vocab.index(id, text);
        }
        Ok(vocab)
    }

    /// Makes the token findable by its text, which is in the arena. Of two with the same text the
    /// later one is found, as in llama.cpp.
    fn index(&mut self, id: u32, text: &[u8]) {
        let Self {
            arena,
            ends,
            ids,
            hasher,
            distinct,
            ..
        } = self;
        if text.is_empty() {
            return;
        }
        let hash = hasher.hash_one(text);
        let same = |&other: &u32| text_of(arena, ends, other) == text;
        match ids.find_mut(hash, same) {
            Some(slot) => {
                *slot = id;
                *distinct = false;
            }
            None => {
                let rehash = |&other: &u32| hasher.hash_one(text_of(arena, ends, other));
                ids.insert_unique(hash, id, rehash);
            }
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.ends.len() as u32
    }

    /// The text of a token as the file has it. Panics where `id` is out of range.
    pub(super) fn text(&self, id: u32) -> &[u8] {
        text_of(&self.arena, &self.ends, id)
    }

    /// The kind of a token. Panics where `id` is out of range.
    pub(super) fn kind(&self, id: u32) -> TokenKind {
        self.kinds[id as usize]
    }

    pub(super) fn set_kind(&mut self, id: u32, kind: TokenKind) {
        self.kinds[id as usize] = kind;
    }

    /// The token whose text is `left` and then `right`. `guess` is tried first: to compare with one
    /// text is quicker than to find it among all, and the merges of a vocabulary mostly make its
    /// tokens one after the other.
    pub(super) fn joined_id(&self, left: &[u8], right: &[u8], guess: u32) -> Option<u32> {
        if self.distinct && guess < self.len() {
            let split = self.text(guess).split_at_checked(left.len());
            if split == Some((left, right)) {
                return Some(guess);
            }
        }
        self.id(&[left, right].concat())
    }

    /// The token with exactly this text.
    pub(super) fn id(&self, text: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(text);
        self.ids.find(hash, |&id| self.text(id) == text).copied()
    }
}

fn text_of<'v>(arena: &'v [u8], ends: &[u32], id: u32) -> &'v [u8] {
    let id = id as usize;
    let start = id.checked_sub(1).map_or(0, |before| ends[before]);
    &arena[start as usize..ends[id] as usize]
}

fn read_kinds(gguf: &Gguf<'_>, n: u32) -> Result<Vec<TokenKind>, TokenizerError> {
    let Some(kinds) = typed_array(gguf, TOKEN_TYPE, ValueType::I32)? else {
        return Ok(vec![TokenKind::Normal; n as usize]);
    };
    check_length(TOKEN_TYPE, kinds, n)?;
    kinds
        .i32s()
        .zip(0..)
        .map(|(found, id)| TokenKind::from_id(found).ok_or(TokenizerError::TokenType { id, found }))
        .collect()
}

/// The array under `key`, if it is there, with elements of type `expected`.
pub(super) fn typed_array<'a>(
    gguf: &Gguf<'a>,
    key: &'static str,
    expected: ValueType,
) -> Result<Option<Array<'a>>, TokenizerError> {
    let Some(array) = gguf.find::<Array<'a>>(key)? else {
        return Ok(None);
    };
    if array.elem_type() == expected {
        return Ok(Some(array));
    }
    Err(TokenizerError::Elements {
        key,
        found: array.elem_type().name(),
        expected: expected.name(),
    })
}

/// An array beside the tokens must be as long as they are.
pub(super) fn check_length(
    key: &'static str,
    array: Array<'_>,
    tokens: u32,
) -> Result<(), TokenizerError> {
    if array.len() == u64::from(tokens) {
        return Ok(());
    }
    Err(TokenizerError::Length {
        key,
        found: array.len(),
        tokens: tokens.into(),
    })
}
