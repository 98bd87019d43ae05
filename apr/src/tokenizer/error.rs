//! What can be wrong with a tokenizer or with what it is asked to do.

use crate::gguf::GgufError;

/// Why a tokenizer cannot be built from a file, or cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A metadata key is missing or of the wrong type.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// A tokenizer family that is not implemented.
    #[error("tokenizer.ggml.model {0:?} is not supported; \"llama\" and \"gpt2\" are")]
    Model(String),
    /// A pre-tokenizer that is not implemented. Using another one would mis-tokenise in silence.
    #[error("tokenizer.ggml.pre {0:?} is not supported; {known} are", known = super::pre::known_names())]
    Pre(String),
    /// An array with elements of the wrong type.
    #[error("metadata key {key:?} is an array of {found}, expected {expected}")]
    Elements {
        /// The key.
        key: &'static str,
        /// Element type found.
        found: &'static str,
        /// Element type expected.
        expected: &'static str,
    },
    /// No tokens at all, or more than ids or bytes can be counted in 32 bits.
    #[error("tokenizer.ggml.tokens has {0} tokens; 1 to 4294967295 of at most 4 GiB can be used")]
    VocabSize(u64),
    /// An array that belongs beside the tokens but has another length.
    #[error("metadata key {key:?} has {found} elements for {tokens} tokens")]
    Length {
        /// The key.
        key: &'static str,
        /// Elements it has.
        found: u64,
        /// Tokens in the vocabulary.
        tokens: u64,
    },
    /// A token type outside the specification.
    #[error("tokenizer.ggml.token_type of token {id} is {found}; 0 to 6 are known")]
    TokenType {
        /// The token.
        id: u32,
        /// The type found.
        found: i32,
    },
    /// A score that is not a number, which no order can be made of.
    #[error("tokenizer.ggml.scores of token {id} is NaN")]
    Score {
        /// The token.
        id: u32,
    },
    /// A byte token whose text is not `<0xHH>`.
    #[error("token {id} is a byte token, but its text is {text:?}, not <0xHH>")]
    ByteToken {
        /// The token.
        id: u32,
        /// Its text.
        text: String,
    },
    /// A special token id outside the vocabulary.
    #[error("metadata key {key:?} is {id}, but the vocabulary has {tokens} tokens")]
    SpecialId {
        /// The key.
        key: &'static str,
        /// The id found.
        id: u32,
        /// Tokens in the vocabulary.
        tokens: u32,
    },
    /// A token that is to be added to every text, but that the file does not name.
    #[error("metadata key {flag:?} asks for a token that {key:?} does not name")]
    MissingSpecial {
        /// The flag that asks for it (by its value, or by its default where it is absent).
        flag: &'static str,
        /// The key that should name it.
        key: &'static str,
    },
    /// A merge rule that is not two tokens of the vocabulary whose text joined is a third.
    #[error("tokenizer.ggml.merges[{index}] is {text:?}: {fault}")]
    Merge {
        /// Position of the rule.
        index: u64,
        /// The rule.
        text: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// More special tokens than a matcher can be built for.
    #[error("cannot build a matcher for the special tokens: {0}")]
    Special(aho_corasick::BuildError),
    /// A byte of the text that no token stands for.
    #[error("the vocabulary has no token for byte 0x{byte:02x}")]
    NoToken {
        /// The byte.
        byte: u8,
    },
    /// An id that is not in the vocabulary.
    #[error("token id {id} is not in the vocabulary of {tokens} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// Tokens in the vocabulary.
        tokens: u32,
    },
}
