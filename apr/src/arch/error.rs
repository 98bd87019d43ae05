//! What a file can lack for its architecture.

use crate::gguf::GgufError;

/// Why a well-formed file cannot be run as the architecture that it names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchError {
    /// A metadata key is missing or of the wrong type, or a tensor has no kernel.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// An architecture that is not implemented.
    #[error("architecture {0:?} is not supported; {known} are", known = super::Architecture::known())]
    Architecture(String),
    /// A hyperparameter with a value that no model can have.
    #[error("metadata key {key:?} is {value}, expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// The value found.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// A feature of the model that is not implemented. Going on without it would give wrong
    /// results in silence.
    #[error("metadata key {key:?} is {value}, which is not supported")]
    Unsupported {
        /// The key.
        key: String,
        /// The value found.
        value: String,
    },
    /// A tensor that the architecture cannot do without.
    #[error("tensor {name:?} {dims:?} is missing, architecture {architecture} needs it")]
    MissingTensor {
        /// Its name.
        name: String,
        /// The dimensions it should have.
        dims: Vec<u64>,
        /// The architecture.
        architecture: &'static str,
    },
    /// A tensor with other dimensions than the hyperparameters ask for.
    #[error("tensor {name:?} has dimensions {found:?}, expected {expected:?}")]
    WrongShape {
        /// Its name.
        name: String,
        /// The dimensions it has.
        found: Vec<u64>,
        /// The dimensions it should have.
        expected: Vec<u64>,
    },
    /// A tensor that the architecture has no use for: the model is more than is implemented.
    #[error(
        "tensor {name:?} is unknown to architecture {architecture}: leaving it out would give wrong results"
    )]
    UnknownTensor {
        /// Its name.
        name: String,
        /// The architecture.
        architecture: &'static str,
    },
}
