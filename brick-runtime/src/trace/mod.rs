//! Looking inside a model: the vocabulary of a layer trace (which steps a model goes through, how
//! much of them is kept, which are wanted), and statistics of what is found there: of a row of
//! attention weights, of a token's logit after each layer, of what quantisation costs, of a key-value
//! cache. Those are plain functions of numbers; which numbers is the caller's business.
//!
//! ```
//! use brick_runtime::trace::{StepFilter, TraceLevel, TraceStep};
//!
//! let wanted: StepFilter = "attention,sample".parse()?;
//! assert!(wanted.has(TraceStep::Attention) && !wanted.has(TraceStep::Embed));
//! assert_eq!("layer".parse(), Ok(TraceLevel::Layer));
//! assert_eq!(TraceStep::LmHead.to_string(), "LM_HEAD");
//! # Ok::<(), brick_runtime::trace::UnknownName>(())
//! ```

mod attention;
mod cap;
mod error;
mod kv;
mod level;
mod logits;
mod quant;
mod step;

pub use attention::{AttentionStats, PositionWeight};
pub use cap::MemoryCap;
pub use error::ModelTraceError;
pub use kv::RowNorms;
pub use level::TraceLevel;
pub use logits::{LogitEvolution, RankedLogit};
pub use quant::QuantError;
pub use step::{StepFilter, TraceStep};

use std::error::Error;
use std::fmt;

/// A text that names no step or level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    what: &'static str,
    found: String,
    known: Vec<&'static str>,
}

impl UnknownName {
    fn new(what: &'static str, found: &str, known: impl IntoIterator<Item = &'static str>) -> Self {
        Self {
            what,
            found: found.to_owned(),
            known: known.into_iter().collect(),
        }
    }
}

/// One line that lists what there is.
impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, found, known } = self;
        write!(
            f,
            "no {what} is called {found:?}; there are {}",
            known.join(", ")
        )
    }
}

impl Error for UnknownName {}
