//! What a model trace cannot be made of.

use std::fmt;

/// Why numbers have no such statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ModelTraceError {
    /// No attention weights.
    Empty,
    /// An attention weight is NaN, infinite or negative.
    NoWeight {
        /// Which.
        index: usize,
        /// What it is.
        value: f32,
    },
    /// A token that the logits don't reach to.
    NoToken {
        /// The token.
        token: u32,
        /// How many there are.
        vocabulary: usize,
    },
    /// A logit is NaN.
    NoLogit {
        /// Which.
        index: usize,
    },
    /// A reference and what stands for it differ in length.
    Lengths {
        /// Elements of the reference.
        reference: usize,
        /// Elements of the other.
        quantised: usize,
    },
    /// A length that is not whole rows.
    Rows {
        /// The length.
        len: usize,
        /// The length of a row.
        width: usize,
    },
}

impl fmt::Display for ModelTraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("no attention weights"),
            Self::NoWeight { index, value } => write!(f, "attention weight {index} is {value}"),
            Self::NoToken { token, vocabulary } => {
                write!(
                    f,
                    "token {token} is not in a vocabulary of {vocabulary} tokens"
                )
            }
            Self::NoLogit { index } => write!(f, "logit {index} is NaN"),
            Self::Lengths {
                reference,
                quantised,
            } => write!(f, "{quantised} elements for a reference of {reference}"),
            Self::Rows { len, width } => write!(f, "{len} elements are not rows of {width}"),
        }
    }
}

impl std::error::Error for ModelTraceError {}
