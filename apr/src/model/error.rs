//! Why a model does not load or does not run.

use crate::arch::ArchError;
use crate::gguf::GgufError;
use crate::tokenizer::TokenizerError;
use brick_kernels::KernelError;

/// Why a model does not load or does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file's metadata can't be used.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The file is not what its architecture needs.
    #[error(transparent)]
    Arch(#[from] ArchError),
    /// A token can't be turned into text.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A kernel refused its arguments.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An observer stopped the session.
    #[error(transparent)]
    Halted(Box<dyn std::error::Error + Send + Sync>),
    /// Nothing was fed.
    #[error("the prompt is empty: there is no token to continue from")]
    EmptyPrompt,
    /// More was fed than the session has room for.
    #[error("{used} tokens and {more} more do not fit the session's {capacity} positions")]
    SessionFull {
        /// Tokens fed before.
        used: usize,
        /// Tokens of this call.
        more: usize,
        /// The session's size.
        capacity: usize,
    },
    /// More was asked for than the model was trained on.
    #[error("{asked} tokens asked for, the model's context is {context} tokens")]
    Context {
        /// Prompt and generation together.
        asked: usize,
        /// `ARCH.context_length`.
        context: usize,
    },
}
