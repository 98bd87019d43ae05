//! What annotated code calls, and all that reads it out.

mod catalog;
mod claim;
mod compute;
pub mod contract;
mod device;
mod figure;
mod gate;
mod histogram;
mod parse;
mod profiler;
mod registry;
mod scope;
mod snapshot;
mod stats;
mod table;

#[cfg(feature = "visualization")]
mod clock;
#[cfg(feature = "visualization")]
mod hook;
#[cfg(feature = "visualization")]
mod slab;
#[cfg(feature = "visualization")]
mod sync;

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
