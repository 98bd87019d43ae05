//! The layer trace of a run: what `apr run --trace` collects, shows and writes, and what
//! `apr trace diff` compares.
//!
//! - [`Collector`] looks on while a session works and keeps steps, statistics and values, within
//!   bounds that it states;
//! - [`Document`] is the file, schema `apr.trace/1`, described in `docs/trace.md`;
//! - [`Table`] is what a person sees;
//! - [`Comparison`] finds where two traces part.

mod collect;
mod diff;
mod document;
mod identity;
mod payload;
mod table;
mod values;
mod warnings;

pub use collect::{Collector, Cost, Level, NotFinite};
pub use diff::{Comparison, Recorded, Side, Tolerance};
pub use document::{Document, SCHEMA, Settings};
pub(crate) use identity::sha256;
pub use identity::{Identity, Kernels};
pub use payload::PayloadPlace;
pub use table::Table;
pub use warnings::Warning;
