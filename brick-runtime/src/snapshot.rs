//! Everything that was counted up to one moment.

use crate::figure::Figure;
use crate::registry::{Backend, BrickId, BrickInfo};
use crate::stats::{BrickStats, Durations};

/// Why a snapshot is empty when the crate was built without its feature.
pub const BUILT_WITHOUT: &str = "built without `visualization`";

/// What the profiler itself costs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ProfilerCost {
    /// Hooks that ran: calls and polls.
    pub hooks: u64,
    /// Nanoseconds per hook, measured on empty calls on this machine, folds included; of a recorded
    /// call where a [timeline](crate::timeline) is being recorded.
    pub ns_per_hook: Figure,
    /// Nanoseconds of all hooks together.
    pub hooks_ns: Figure,
    /// Folds of the logs, measured; their time is in `hooks_ns` too.
    pub folds: Durations,
    /// Checks of results, measured; not in `hooks_ns`.
    pub checks: Durations,
}

/// Everything that was counted since the last reset, or between two snapshots.
///
/// A snapshot is taken while the program runs and holds every call that ended before. Threads
/// are read one after the other, each at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub(crate) unavailable: Option<&'static str>,
    pub(crate) bricks: Vec<BrickStats>,
    pub(crate) wall_ns: u64,
    pub(crate) tokens: u64,
    pub(crate) dropped: u64,
    pub(crate) folds: crate::tally::Span,
    pub(crate) ns_per_hook: Figure,
    pub(crate) ns_per_tick: f64,
}

impl Snapshot {
    /// Of a build without `visualization`.
    #[cfg(not(feature = "visualization"))]
    pub(crate) fn absent() -> Snapshot {
        Snapshot {
            unavailable: Some(BUILT_WITHOUT),
            bricks: Vec::new(),
            wall_ns: 0,
            tokens: 0,
            dropped: 0,
            folds: crate::tally::Span::default(),
            ns_per_hook: Figure::unavailable(BUILT_WITHOUT),
            ns_per_tick: 1.0,
        }
    }

    /// Why there is nothing in here, if that is so by construction.
    #[must_use]
    pub fn unavailable(&self) -> Option<&'static str> {
        self.unavailable
    }
    /// The bricks that were called, in the order of their first call. One row per backend.
    #[must_use]
    pub fn bricks(&self) -> &[BrickStats] {
        &self.bricks
    }
    /// The statistics of a brick's primary claim; `None` if it was never called.
    #[must_use]
    pub fn brick(&self, id: impl BrickId) -> Option<&BrickStats> {
        self.brick_on(id, Backend::Primary)
    }
    /// The statistics of a brick's claim for `backend`; `None` if it was never called.
    #[must_use]
    pub fn brick_on(&self, id: impl BrickId, backend: Backend) -> Option<&BrickStats> {
        let id = id.info();
        self.find(|info| {
            info.wire_id == id.wire_id && info.name == id.name && info.backend == backend
        })
    }
    /// The statistics of the first brick that `wanted` accepts.
    pub fn find(&self, mut wanted: impl FnMut(&BrickInfo) -> bool) -> Option<&BrickStats> {
        self.bricks.iter().find(|brick| wanted(brick.info()))
    }

    /// Wall-clock nanoseconds during which the profiler was enabled: one program's time, not
    /// the sum of its bricks.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.wall_ns
    }
    /// Tokens that the program reported with `BrickProfiler::add_tokens`.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        self.tokens
    }
    /// Self times of all bricks on all threads. Over one thread that is the time that bricks
    /// cover.
    #[must_use]
    pub fn covered_ns(&self) -> f64 {
        self.bricks.iter().map(BrickStats::self_ns).sum()
    }
    /// Calls that could not be recorded: of bricks past the 2047th, or from destructors
    /// of thread-locals that ran after the thread's slab was handed back.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
    /// What the profiler itself cost.
    #[must_use]
    pub fn cost(&self) -> ProfilerCost {
        let hooks = self.bricks.iter().map(|b| b.calls() + b.polls()).sum();
        let hooks_ns = match &self.ns_per_hook {
            Figure::Unavailable(why) => Figure::Unavailable(why.clone()),
            known => Figure::Derived {
                value: known.value().unwrap_or(f64::NAN) * hooks as f64,
                from: "measured ns per hook × hooks",
            },
        };
        let checks = self.bricks.iter().fold(Durations::default(), |sum, brick| {
            let checks = brick.checks();
            Durations {
                count: sum.count + checks.count,
                total_ns: sum.total_ns + checks.total_ns,
                min_ns: [sum.min_ns, checks.min_ns]
                    .into_iter()
                    .flatten()
                    .reduce(f64::min),
                max_ns: [sum.max_ns, checks.max_ns]
                    .into_iter()
                    .flatten()
                    .reduce(f64::max),
            }
        });
        ProfilerCost {
            hooks,
            ns_per_hook: self.ns_per_hook.clone(),
            hooks_ns,
            folds: self.folds.durations(self.ns_per_tick),
            checks,
        }
    }

    /// What happened between `earlier` and this snapshot, of one process without a reset in
    /// between. Extremes are `None` for bricks that `earlier` knew: they can't be subtracted.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        let brick = |now: &BrickStats| match earlier.bricks.iter().find(|b| b.info() == now.info())
        {
            Some(before) => now.since(before),
            None => now.clone(),
        };
        let seen = |b: &BrickStats| b.calls() + b.polls() + b.cancelled() > 0;
        Snapshot {
            bricks: self.bricks.iter().map(brick).filter(seen).collect(),
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            tokens: self.tokens.saturating_sub(earlier.tokens),
            dropped: self.dropped.saturating_sub(earlier.dropped),
            folds: self.folds.since(&earlier.folds),
            ..self.clone()
        }
    }
}

/// Where the figures of a brick come from that don't say so themselves, by their names.
#[cfg(feature = "serde")]
#[derive(serde::Serialize)]
struct Provenance {
    measured: &'static [&'static str],
    derived: &'static [&'static str],
    declared: &'static [&'static str],
}

#[cfg(feature = "serde")]
const PROVENANCE: Provenance = Provenance {
    measured: &[
        "calls",
        "timed_calls",
        "recursive",
        "panics",
        "over_budget",
        "polls",
        "cancelled",
        "time",
        "self_ns",
        "checks",
        "latency",
        "shared_ns",
        "waited_ns",
        "layers",
    ],
    // From the times and their histogram.
    derived: &[
        "mean_ns",
        "std_ns",
        "cv",
        "percentile_resolution",
        "p50",
        "p90",
        "p95",
        "p99",
    ],
    // By the author of the brick, for the calls that returned.
    declared: &["flops", "bytes", "tokens", "elements"],
};

/// `{"unavailable", "total_ns", "total_tokens", "dropped", "cost", "provenance", "bricks"}`. What
/// is not known is null.
#[cfg(feature = "serde")]
impl serde::Serialize for Snapshot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let known = |count: u64| self.unavailable.is_none().then_some(count);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("unavailable", &self.unavailable)?;
        map.serialize_entry("total_ns", &known(self.wall_ns))?;
        map.serialize_entry("total_tokens", &known(self.tokens))?;
        map.serialize_entry("dropped", &known(self.dropped))?;
        map.serialize_entry("cost", &self.unavailable.is_none().then(|| self.cost()))?;
        map.serialize_entry("provenance", &PROVENANCE)?;
        map.serialize_entry("bricks", &self.bricks)?;
        map.end()
    }
}
