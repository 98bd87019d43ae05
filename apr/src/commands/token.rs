//! A token as it is shown and exported.

use crate::tokenizer::{TokenKind, Tokenizer, TokenizerError};
use serde::Serialize;

/// A token: its id, and what it stands for.
#[derive(Debug, Serialize)]
pub(super) struct Token {
    pub(super) id: u32,
    pub(super) kind: TokenKind,
    /// The bytes that the token stands for: they can be part of a character.
    bytes_hex: String,
    /// The same as text, where they are text.
    text: Option<String>,
}

impl Token {
    /// Token `id` of the vocabulary.
    pub(super) fn new(tokenizer: &Tokenizer, id: u32) -> Result<Self, TokenizerError> {
        let bytes = tokenizer.decode(&[id])?;
        Ok(Self {
            id,
            kind: tokenizer.kind(id).unwrap_or(TokenKind::Undefined),
            bytes_hex: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            text: String::from_utf8(bytes).ok(),
        })
    }

    /// What it stands for, on one line: quoted text, or bytes where it is none.
    pub(super) fn shown(&self) -> String {
        match &self.text {
            Some(text) => format!("{text:?}"),
            None => format!("bytes {}", self.bytes_hex),
        }
    }
}
