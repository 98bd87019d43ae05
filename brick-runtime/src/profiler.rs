//! The profiler: one per process, since bricks are.

#[cfg(feature = "visualization")]
mod live;
#[cfg(not(feature = "visualization"))]
#[path = "profiler/absent.rs"]
mod live;

use crate::device::{Device, SyncMode};
use crate::registry::BrickId;
use crate::snapshot::Snapshot;
use crate::stats::BrickStats;

#[cfg(feature = "visualization")]
pub(crate) use self::live::{call_calibration, ns_per_hook, start_wall, synchronize_if_deferred};

/// The handle to what annotated code records.
///
/// With `visualization` it records from the first brick on. Without, everything here compiles
/// and does nothing: snapshots are empty and say why.
///
/// ```
/// use brick_runtime::BrickProfiler;
/// let profiler = BrickProfiler::global();
/// // … run some bricks …
/// let snapshot = profiler.snapshot();
/// for brick in snapshot.bricks() {
///     println!("{} {} calls, {:.1} µs", brick.info().name, brick.calls(), brick.total_ns() / 1e3);
/// }
/// ```
#[derive(Debug)]
pub struct BrickProfiler {
    _one: (),
}

impl BrickProfiler {
    /// The one of this process.
    #[must_use]
    pub fn global() -> &'static BrickProfiler {
        live::ready();
        &BrickProfiler { _one: () }
    }

    /// Records calls that start from now on (the state at start).
    pub fn enable(&self) {
        live::set_enabled(true);
    }
    /// Stops recording, and the wall clock. Calls that are running are still recorded.
    pub fn disable(&self) {
        live::set_enabled(false);
    }
    /// Whether calls are recorded. Never in a build without `visualization`.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        live::is_enabled()
    }

    /// Forgets everything recorded so far and starts the wall clock anew. A call that is running
    /// is recorded when it ends, with all its time. What the calling thread has to clear is cleared before
    /// the wall clock starts; other threads do it when they next fold what they recorded.
    pub fn reset(&self) {
        live::reset();
    }
    /// Everything recorded since the last reset.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        live::snapshot()
    }

    /// Wall-clock nanoseconds since the start or the last reset, without the time spent
    /// disabled. Not the sum of the bricks.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        live::wall_ns()
    }
    /// Tokens that the program said it has processed.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        live::tokens()
    }
    /// The program has processed `n` more tokens. (What a brick declares with `tokens = …` stays
    /// with the brick: the same token passes many bricks.)
    pub fn add_tokens(&self, n: u64) {
        live::add_tokens(n);
    }
    /// The statistics of one brick; `None` if it was never called.
    ///
    /// Takes a whole snapshot: for several bricks, take one.
    #[must_use]
    pub fn brick_stats(&self, id: impl BrickId) -> Option<BrickStats> {
        self.snapshot().brick(id).cloned()
    }

    /// What bricks are timed with: `rdtsc`, `CNTVCT_EL0`, or `Instant` where the processor's counter
    /// does not tick at one rate. `None` in a build without `visualization`.
    #[must_use]
    pub fn clock(&self) -> Option<&'static str> {
        live::clock()
    }

    /// When the device is waited for.
    pub fn set_sync_mode(&self, mode: SyncMode) {
        live::set_sync_mode(mode);
    }
    /// When the device is waited for.
    #[must_use]
    pub fn sync_mode(&self) -> SyncMode {
        live::sync_mode()
    }
    /// Registers the device that the sync mode is about; `None` takes it away again.
    pub fn set_device(&self, device: Option<Box<dyn Device>>) {
        live::set_device(device);
    }
}
