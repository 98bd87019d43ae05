//! What is known of one brick.

use crate::figure::Figure;
use crate::histogram::RESOLUTION;
use crate::registry::{BrickInfo, Budget};
use crate::tally::{Span, Tally};

/// Some durations: how many, their sum and extremes, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub total_ns: f64,
    /// The shortest; `None` where there is none, or where it can't be told from a difference.
    pub min_ns: Option<f64>,
    /// The longest; likewise.
    pub max_ns: Option<f64>,
}

impl Durations {
    /// Their mean in nanoseconds; `None` where there is none.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total_ns / self.count as f64)
    }
}

/// A quantile read off the histogram.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Percentile {
    /// Interpolated within its bucket.
    pub ns: f64,
    /// The exact sample quantile (nearest rank) is no less than this …
    pub low_ns: f64,
    /// … and no more than this.
    pub high_ns: f64,
}

/// One layer's share of a brick.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LayerStats {
    /// The layer.
    pub layer: u32,
    /// This row also holds all layers above (the table ends here).
    pub and_above: bool,
    /// Inclusive times of the outermost calls in it.
    pub time: Durations,
}

/// The statistics of one brick.
///
/// Calls are counted when they end, on every exit (a panic too). Times are wall clock and
/// include what the brick calls; of recursive calls only the outermost is timed, so a total
/// never holds the same nanosecond twice on one thread. Times of several threads add up.
#[derive(Clone, Debug, PartialEq)]
pub struct BrickStats {
    info: &'static BrickInfo,
    tally: Tally,
    ns_per_tick: f64,
}

impl BrickStats {
    #[cfg_attr(not(feature = "visualization"), allow(dead_code))]
    pub(crate) fn new(info: &'static BrickInfo, tally: Tally, ns_per_tick: f64) -> BrickStats {
        BrickStats {
            info,
            tally,
            ns_per_tick,
        }
    }

    pub(crate) fn since(&self, earlier: &BrickStats) -> BrickStats {
        BrickStats {
            tally: self.tally.since(&earlier.tally),
            ..self.clone()
        }
    }

    /// What is known of the brick at compile time.
    #[must_use]
    pub fn info(&self) -> &'static BrickInfo {
        self.info
    }
    /// Calls that ended, recursive ones and panics included.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.tally.time.count + self.tally.recursive
    }
    /// Calls that the times are of: all but the recursive ones.
    #[must_use]
    pub fn timed_calls(&self) -> u64 {
        self.tally.time.count
    }
    /// Calls made while another call of this brick was open on the same thread.
    #[must_use]
    pub fn recursive(&self) -> u64 {
        self.tally.recursive
    }
    /// Calls that ended by a panic.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.tally.panics
    }
    /// Timed calls that took longer than their budget.
    #[must_use]
    pub fn over_budget(&self) -> u64 {
        self.tally.over_budget
    }
    /// Polls, for an async brick.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.tally.polls
    }
    /// Async calls that were dropped before their end; they are not in [`BrickStats::calls`].
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.tally.cancelled
    }
    /// Floating-point operations declared by the calls that returned.
    #[must_use]
    pub fn flops(&self) -> u64 {
        self.tally.flops
    }
    /// Bytes declared by the calls that returned.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.tally.bytes
    }
    /// Tokens declared by the calls that returned.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tally.tokens
    }
    /// Elements declared by the calls that returned.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.tally.elements
    }

    /// Inclusive times of the timed calls. For an async call that is its busy time, summed over
    /// its polls.
    #[must_use]
    pub fn time(&self) -> Durations {
        self.tally.time.durations(self.ns_per_tick)
    }
    /// Inclusive nanoseconds of the timed calls.
    #[must_use]
    pub fn total_ns(&self) -> f64 {
        self.time().total_ns
    }
    /// Nanoseconds spent in this brick itself: without the bricks it called on its thread, the
    /// checks of their results and the profiler's folds. Polls of async calls count as they end.
    #[must_use]
    pub fn self_ns(&self) -> f64 {
        // As two's complement: a clock that stepped back may leave it a little below zero.
        (self.tally.own as i64).max(0) as f64 * self.ns_per_tick
    }
    /// Mean nanoseconds of a timed call.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        self.time().mean_ns()
    }
    /// The shortest timed call; `None` also in a difference of snapshots.
    #[must_use]
    pub fn min_ns(&self) -> Option<f64> {
        self.time().min_ns
    }
    /// The longest timed call; `None` also in a difference of snapshots.
    #[must_use]
    pub fn max_ns(&self) -> Option<f64> {
        self.time().max_ns
    }

    /// Sample standard deviation of the timed calls (n − 1); `None` for fewer than two.
    #[must_use]
    pub fn std_ns(&self) -> Option<f64> {
        let Tally {
            time: Span { count, total, .. },
            squares,
            ..
        } = self.tally;
        let freedom = count.checked_sub(1).filter(|&n| n > 0)?;
        let spread = squares - total as f64 * (total as f64 / count as f64);
        Some((spread.max(0.0) / freedom as f64).sqrt() * self.ns_per_tick)
    }
    /// Coefficient of variation: standard deviation over mean.
    #[must_use]
    pub fn cv(&self) -> Option<f64> {
        let mean = self.mean_ns().filter(|&mean| mean > 0.0)?;
        Some(self.std_ns()? / mean)
    }

    /// The `q`-quantile (0.99 for p99) of the timed calls, with the bucket that it lies in.
    #[must_use]
    pub fn percentile(&self, q: f64) -> Option<Percentile> {
        let Span { min, max, .. } = self.tally.time;
        let (value, low, high) = self.tally.histogram.quantile(q, min, max)?;
        let ns = |ticks: f64| ticks * self.ns_per_tick;
        Some(Percentile {
            ns: ns(value),
            low_ns: ns(low),
            high_ns: ns(high),
        })
    }
    /// Median in nanoseconds.
    #[must_use]
    pub fn p50_ns(&self) -> Option<f64> {
        Some(self.percentile(0.50)?.ns)
    }
    /// 90th percentile in nanoseconds.
    #[must_use]
    pub fn p90_ns(&self) -> Option<f64> {
        Some(self.percentile(0.90)?.ns)
    }
    /// 95th percentile in nanoseconds.
    #[must_use]
    pub fn p95_ns(&self) -> Option<f64> {
        Some(self.percentile(0.95)?.ns)
    }
    /// 99th percentile in nanoseconds.
    #[must_use]
    pub fn p99_ns(&self) -> Option<f64> {
        Some(self.percentile(0.99)?.ns)
    }
    /// A percentile is at most this fraction off: the width of a bucket.
    pub const PERCENTILE_RESOLUTION: f64 = RESOLUTION;

    /// Time spent checking results, which is in no other time here.
    #[must_use]
    pub fn checks(&self) -> Durations {
        self.tally.checks.durations(self.ns_per_tick)
    }
    /// Nanoseconds that several threads shared the work of calls, between fork and [barrier](crate::Barrier),
    /// summed over the threads; of what the calls called too.
    #[must_use]
    pub fn shared_ns(&self) -> f64 {
        self.tally.shared as f64 * self.ns_per_tick
    }
    /// Those of [`shared_ns`](Self::shared_ns) in which a thread waited: to be woken, or for the others to
    /// finish.
    #[must_use]
    pub fn waited_ns(&self) -> f64 {
        self.tally.waited as f64 * self.ns_per_tick
    }
    /// The share of the threads' time in shared work that they waited: 0 is perfect balance, with two
    /// threads 0.5 that one did everything.
    #[must_use]
    pub fn wait_share(&self) -> Figure {
        match self.tally.shared {
            0 => Figure::unavailable("no work was shared by threads"),
            shared => Figure::Derived {
                value: self.tally.waited as f64 / shared as f64,
                from: "measured waiting / measured time of all threads between fork and barrier",
            },
        }
    }
    /// First poll to end of async calls: busy time, and time spent waiting.
    #[must_use]
    pub fn latency(&self) -> Durations {
        self.tally.latency.durations(self.ns_per_tick)
    }
    /// Times by layer, for the calls made in one.
    pub fn layers(&self) -> impl Iterator<Item = LayerStats> + '_ {
        self.tally.layers.iter().map(|l| LayerStats {
            layer: l.layer,
            and_above: l.and_above,
            time: l.span.durations(self.ns_per_tick),
        })
    }

    /// Budget over actual time, summed over the timed calls: 1 is just kept, 0.25 is four times
    /// over.
    #[must_use]
    pub fn efficiency(&self) -> Figure {
        let total = self.total_ns();
        if total <= 0.0 {
            return Figure::unavailable("no timed call");
        }
        let budget = match self.info.budget {
            Budget::None => return Figure::unavailable("no budget declared"),
            Budget::Fixed { ns } => ns as f64 * self.timed_calls() as f64,
            Budget::PerCall { .. } => self.tally.budgets as f64 * self.ns_per_tick,
        };
        Figure::Derived {
            value: budget / total,
            from: "declared budget / measured time",
        }
    }
    /// Billions of declared floating-point operations per second of inclusive time.
    #[must_use]
    pub fn gflop_per_s(&self) -> Figure {
        self.rate(
            self.flops(),
            "no `flops` declared",
            "declared flops / measured time",
        )
    }
    /// Billions of declared bytes per second of inclusive time.
    #[must_use]
    pub fn gb_per_s(&self) -> Figure {
        self.rate(
            self.bytes(),
            "no `bytes` declared",
            "declared bytes / measured time",
        )
    }
    /// Arithmetic intensity: declared operations per declared byte.
    #[must_use]
    pub fn flop_per_byte(&self) -> Figure {
        match (self.flops(), self.bytes()) {
            (0, _) => Figure::unavailable("no `flops` declared"),
            (_, 0) => Figure::unavailable("no `bytes` declared"),
            (flops, bytes) => Figure::Derived {
                value: flops as f64 / bytes as f64,
                from: "declared flops / declared bytes",
            },
        }
    }

    fn rate(&self, amount: u64, none: &'static str, from: &'static str) -> Figure {
        let ns = self.total_ns();
        match amount {
            0 => Figure::unavailable(none),
            _ if ns <= 0.0 => Figure::unavailable("no timed call"),
            _ => Figure::Derived {
                value: amount as f64 / ns,
                from,
            },
        }
    }
}

/// Every figure above, by name.
#[cfg(feature = "serde")]
impl serde::Serialize for BrickStats {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("brick", self.info)?;
        for (name, count) in [
            ("calls", self.calls()),
            ("timed_calls", self.timed_calls()),
            ("recursive", self.recursive()),
            ("panics", self.panics()),
            ("over_budget", self.over_budget()),
            ("polls", self.polls()),
            ("cancelled", self.cancelled()),
            ("flops", self.flops()),
            ("bytes", self.bytes()),
            ("tokens", self.tokens()),
            ("elements", self.elements()),
        ] {
            map.serialize_entry(name, &count)?;
        }
        map.serialize_entry("time", &self.time())?;
        map.serialize_entry("self_ns", &self.self_ns())?;
        map.serialize_entry("mean_ns", &self.mean_ns())?;
        map.serialize_entry("std_ns", &self.std_ns())?;
        map.serialize_entry("cv", &self.cv())?;
        map.serialize_entry("percentile_resolution", &Self::PERCENTILE_RESOLUTION)?;
        for (name, q) in [("p50", 0.50), ("p90", 0.90), ("p95", 0.95), ("p99", 0.99)] {
            map.serialize_entry(name, &self.percentile(q))?;
        }
        map.serialize_entry("efficiency", &self.efficiency())?;
        map.serialize_entry("gflop_per_s", &self.gflop_per_s())?;
        map.serialize_entry("gb_per_s", &self.gb_per_s())?;
        map.serialize_entry("flop_per_byte", &self.flop_per_byte())?;
        map.serialize_entry("checks", &self.checks())?;
        map.serialize_entry("latency", &self.latency())?;
        map.serialize_entry("shared_ns", &self.shared_ns())?;
        map.serialize_entry("waited_ns", &self.waited_ns())?;
        map.serialize_entry("wait_share", &self.wait_share())?;
        map.serialize_entry("layers", &self.layers().collect::<Vec<_>>())?;
        map.end()
    }
}
