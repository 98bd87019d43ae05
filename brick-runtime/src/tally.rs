//! What was counted, in ticks: sums that add up over threads and can be subtracted.

use crate::histogram::Histogram;
use crate::stats::Durations;

/// Count, sum and extremes of some durations, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) count: u64,
    pub(crate) total: u64,
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
}

#[cfg_attr(not(feature = "visualization"), allow(dead_code))]
impl Span {
    pub(crate) fn new(count: u64, total: u64, min: u64, max: u64) -> Span {
        let known = count > 0;
        Span {
            count,
            total,
            min: known.then_some(min),
            max: known.then_some(max),
        }
    }

    /// Takes in another span over other durations.
    pub(crate) fn add(&mut self, other: &Span) {
        self.count += other.count;
        self.total += other.total;
        self.min = [self.min, other.min].into_iter().flatten().min();
        self.max = self.max.max(other.max);
    }

    /// What came after `earlier`; its extremes are known only if it is all there is.
    pub(crate) fn since(&self, earlier: &Span) -> Span {
        let fresh = earlier.count == 0;
        Span {
            count: self.count.saturating_sub(earlier.count),
            total: self.total.saturating_sub(earlier.total),
            min: self.min.filter(|_| fresh),
            max: self.max.filter(|_| fresh),
        }
    }

    pub(crate) fn durations(&self, ns_per_tick: f64) -> Durations {
        Durations {
            count: self.count,
            total_ns: self.total as f64 * ns_per_tick,
            min_ns: self.min.map(|t| t as f64 * ns_per_tick),
            max_ns: self.max.map(|t| t as f64 * ns_per_tick),
        }
    }
}

/// The time of one brick in one layer, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LayerTally {
    pub(crate) layer: u32,
    pub(crate) and_above: bool,
    pub(crate) span: Span,
}

/// What was counted of one brick, in ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Outermost calls.
    pub(crate) time: Span,
    /// Sum of squared ticks of the outermost calls.
    pub(crate) squares: f64,
    /// Self time; two's complement.
    pub(crate) own: u64,
    pub(crate) recursive: u64,
    pub(crate) over_budget: u64,
    pub(crate) panics: u64,
    pub(crate) polls: u64,
    pub(crate) cancelled: u64,
    pub(crate) flops: u64,
    pub(crate) bytes: u64,
    pub(crate) tokens: u64,
    pub(crate) elements: u64,
    /// Ticks of the budgets that calls computed for themselves.
    pub(crate) budgets: u64,
    /// Ticks that threads shared work, and those of them that they waited.
    pub(crate) shared: u64,
    pub(crate) waited: u64,
    pub(crate) checks: Span,
    pub(crate) latency: Span,
    pub(crate) histogram: Histogram,
    pub(crate) layers: Vec<LayerTally>,
}

impl Tally {
    pub(crate) fn since(&self, earlier: &Tally) -> Tally {
        let layer = |now: &LayerTally| {
            let before = earlier.layers.iter().find(|l| l.layer == now.layer);
            let span = before.map_or(now.span, |before| now.span.since(&before.span));
            LayerTally {
                span,
                ..now.clone()
            }
        };
        Tally {
            time: self.time.since(&earlier.time),
            squares: (self.squares - earlier.squares).max(0.0),
            own: self.own.wrapping_sub(earlier.own),
            recursive: self.recursive.saturating_sub(earlier.recursive),
            over_budget: self.over_budget.saturating_sub(earlier.over_budget),
            panics: self.panics.saturating_sub(earlier.panics),
            polls: self.polls.saturating_sub(earlier.polls),
            cancelled: self.cancelled.saturating_sub(earlier.cancelled),
            flops: self.flops.saturating_sub(earlier.flops),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            tokens: self.tokens.saturating_sub(earlier.tokens),
            elements: self.elements.saturating_sub(earlier.elements),
            budgets: self.budgets.saturating_sub(earlier.budgets),
            shared: self.shared.saturating_sub(earlier.shared),
            waited: self.waited.saturating_sub(earlier.waited),
            checks: self.checks.since(&earlier.checks),
            latency: self.latency.since(&earlier.latency),
            histogram: self.histogram.since(&earlier.histogram),
            layers: self
                .layers
                .iter()
                .map(layer)
                .filter(|l| l.span.count > 0)
                .collect(),
        }
    }
}
