//! What there is to see inside a model: statistics of one row of attention weights, of a token's logit
//! after each layer, of what quantisation costs, of a key-value cache. Plain functions of numbers; which
//! numbers those are is the caller's business.

mod attention;
mod cap;
mod error;
mod kv;
mod logits;
mod quant;

pub use attention::{AttentionStats, PositionWeight};
pub use cap::MemoryCap;
pub use error::ModelTraceError;
pub use kv::RowNorms;
pub use logits::{LogitEvolution, RankedLogit};
pub use quant::QuantError;
