//! The atomics of the log's protocol, behind one name.
//!
//! `tests/model.rs` compiles `slab/log.rs` into itself with loom's atomics under this name, so
//! what is modelled is the code that runs, without a `cfg` in it.

pub(crate) use std::sync::atomic::{AtomicU16, AtomicU64, Ordering, fence};
