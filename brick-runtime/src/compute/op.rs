//! What a brick does, and how it fails.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::contract::Violation;
use crate::registry::Backend;

/// An operation's own error.
pub type OpError = Box<dyn Error + Send + Sync>;

/// An operation that a [`ComputeBrick`](super::ComputeBrick) runs.
pub trait ComputeOp: Send + Sync {
    /// What it takes.
    type Input;
    /// What it makes.
    type Output;

    /// Its name in reports.
    fn name(&self) -> &str;

    /// Where it can run, the best first; at least one.
    fn backends(&self) -> &[Backend] {
        &[Backend::Primary]
    }

    /// Runs it on one of [`ComputeOp::backends`].
    ///
    /// # Errors
    /// The operation's own.
    fn execute(&self, input: &Self::Input, backend: Backend) -> Result<Self::Output, OpError>;

    /// The work that `input` makes, for rates in reports. Nothing declared, nothing derived.
    fn work(&self, input: &Self::Input) -> Work {
        let _ = input;
        Work::default()
    }
}

/// The work of one call; 0 is not declared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes that must move.
    pub bytes: u64,
    /// Tokens.
    pub tokens: u64,
    /// Elements.
    pub elements: u64,
}

/// Why a brick did not run, or its result is not to be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum BrickError {
    /// The operation failed.
    Op {
        /// The brick's name.
        brick: String,
        /// Its own error.
        source: OpError,
    },
    /// An assertion does not hold.
    Assertion(Box<Violation>),
    /// It took longer than its budget, which is enforced.
    Budget {
        /// The brick's name.
        brick: String,
        /// What it may take.
        budget: Duration,
        /// What it took.
        elapsed: Duration,
    },
    /// The operation does not have the backend that was asked for.
    Backend {
        /// The brick's name.
        brick: String,
        /// What was asked for.
        backend: Backend,
        /// What there is.
        available: Vec<Backend>,
    },
    /// There is nothing to verify: the brick has no assertions.
    NoAssertions {
        /// The brick's name.
        brick: String,
    },
}

impl fmt::Display for BrickError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrickError::Op { brick, source } => write!(f, "brick `{brick}` failed: {source}"),
            BrickError::Assertion(violation) => violation.fmt(f),
            BrickError::Budget {
                brick,
                budget,
                elapsed,
            } => {
                write!(
                    f,
                    "brick `{brick}` took {elapsed:?}, its budget is {budget:?}"
                )
            }
            BrickError::Backend {
                brick,
                backend,
                available,
            } => {
                write!(
                    f,
                    "brick `{brick}` has no backend {backend:?}; it has {available:?}"
                )
            }
            BrickError::NoAssertions { brick } => {
                write!(f, "brick `{brick}` has no assertions to verify")
            }
        }
    }
}

impl Error for BrickError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BrickError::Op { source, .. } => Some(&**source),
            BrickError::Assertion(violation) => Some(violation),
            _ => None,
        }
    }
}
