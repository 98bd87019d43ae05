//! Time budgets, numeric contracts and a profiler for compute kernels: what annotated code
//! calls, and all that reads it out.
//!
//! ```
//! use brick_runtime::{BrickProfiler, brick, bricks};
//!
//! bricks! { Axpy } // in a crate of its own, `bricks!()` finds them by itself
//!
//! /// y += a · x
//! #[brick(id = Axpy, budget_us = 20, assert = "finite", flops = 2 * x.len())]
//! fn axpy(a: f32, x: &[f32], y: &mut [f32]) {
//!     for (y, x) in y.iter_mut().zip(x) {
//!         *y += a * x;
//!     }
//! }
//!
//! fn main() {
//!     axpy(0.5, &[1.0; 4096], &mut [0.0; 4096]);
//!     println!("{}", BrickProfiler::global().snapshot().table());
//!     let calls = BrickProfiler::global().brick_stats(BrickId::Axpy).map(|axpy| axpy.calls());
//!     assert_eq!(calls, cfg!(feature = "visualization").then_some(1));
//! }
//! ```
//!
//! Without the feature `visualization` the annotation compiles to nothing, this API stays and its
//! snapshots say why they are empty. So a library leaves the feature to the program.
//!
//! - [`macro@brick`] and [`bricks!`] annotate; [`BrickInfo`] and [`Registry`] are what is known at
//!   compile time, of one or several crates.
//! - [`BrickProfiler`] gives [`Snapshot`]s of [`BrickStats`], and [`Table`]s for people. A [`Figure`]
//!   says whether it was measured, derived or is unavailable. [`layer_scope`] and [`position_scope`] say
//!   where the program is.
//! - [`timeline`] records every call with its true start and end, while asked to.
//! - [`graph`] says what had to come before what: the critical path, slack, gaps.
//! - [`checksum`] says where two runs part.
//! - [`contract`] decides what is checked and what follows on a [`Violation`]; [`Check`] makes a
//!   type checkable.
//! - [`trace`] looks inside a model: the steps that a layer trace tells of, statistics of what is there.
//! - [`tracer`] looks closely at the next call of a brick whose timing is off: where its time went,
//!   system call by system call.
//! - [`ComputeBrick`] and [`BrickLayer`] are bricks composed at run time.
//! - [`span`] is the record that leaves the process, [`sink`] where it goes.

mod barrier;
mod catalog;
pub mod checksum;
mod claim;
mod compute;
pub mod contract;
mod device;
mod figure;
mod gate;
pub mod graph;
mod histogram;
mod parse;
mod profiler;
mod registry;
mod scope;
pub mod sink;
mod snapshot;
pub mod span;
mod stats;
mod table;
mod tally;
pub mod timeline;
pub mod trace;
pub mod tracer;

#[cfg(feature = "visualization")]
mod clock;
#[cfg(feature = "visualization")]
mod hook;
#[cfg(feature = "visualization")]
mod slab;
#[cfg(feature = "visualization")]
mod sync;

pub use barrier::{Barrier, Working};
pub use brick_macros::{brick, bricks};
pub use catalog::Registry;
pub use compute::{
    AssertionResult, BrickError, BrickLayer, BrickRun, ComputeBrick, ComputeOp, LayerRun, OpError,
    StageRun, Verification, Work,
};
pub use contract::{Check, Checker, Rules, TensorStats, Violation};
pub use device::{Device, SyncMode};
pub use figure::Figure;
pub use parse::UnknownBrick;
pub use profiler::BrickProfiler;
pub use registry::{Backend, BrickId, BrickInfo, Budget, Checks};
pub use scope::{
    LayerScope, PositionScope, current_layer, current_position, layer_scope, position_scope,
};
pub use snapshot::{BUILT_WITHOUT, ProfilerCost, Snapshot};
pub use stats::{BrickStats, Durations, LayerStats, Percentile};
pub use table::Table;
pub use tracer::BrickTracer;

/// What the macros expand to. Not for people: anything here may change in any release.
#[doc(hidden)]
pub mod __private {
    pub use crate::claim::Claim;
    pub use crate::contract::{Amount, Rules};
    pub use crate::gate::holds;
    #[cfg(not(feature = "visualization"))]
    pub use crate::gate::{Declared, checkable, never};
    #[cfg(feature = "visualization")]
    pub use crate::hook::{AsyncCall, Entry, Guard, Post, Running, ScopedGuard, Site, Verdict};
    pub use crate::parse::parse;
    pub use crate::registry::{crate_of, wire_id};
    #[cfg(feature = "serde")]
    pub use {crate::parse::deserialize, serde};

    /// Runs a body once. The `FnOnce` bound is the point: a plain closure that returns a
    /// reborrow is inferred as `FnMut` and refused ("captured variable cannot escape").
    #[inline(always)]
    pub fn once<R>(body: impl FnOnce() -> R) -> R {
        body()
    }
}
