//! What became of one call.

use std::borrow::Cow;
use std::time::{Instant, SystemTime};

use super::breakdown::SyscallBreakdown;
use super::thresholds::EscalationReason;
use crate::registry::BrickInfo;

/// What became of one call.
#[derive(Clone, Debug)]
pub struct TracedBrickResult<T> {
    /// What the call returned.
    pub result: T,
    /// Microseconds that it took, what tracing added taken out.
    pub duration_us: u64,
    /// Where they went; `None` if the call was not escalated, or could not be observed.
    pub syscall_breakdown: Option<SyscallBreakdown>,
    /// Why an escalated call has no breakdown.
    pub no_breakdown: Option<Cow<'static, str>>,
    /// Budget over duration: 1 is just kept, 0.25 is four times over.
    pub efficiency_score: f32,
    /// It took longer than its budget.
    pub over_budget: bool,
    /// Why the call was escalated; `None` if it was not.
    pub escalation_reason: Option<EscalationReason>,
    /// The id of the call's span, if it was exported: by [`BrickTracer::with_spans`] or by
    /// [`BrickTracer::with_exporter`]'s function.
    ///
    /// [`BrickTracer::with_spans`]: super::BrickTracer::with_spans
    /// [`BrickTracer::with_exporter`]: super::BrickTracer::with_exporter
    pub otlp_span_id: Option<String>,
}

/// An escalated call, for an exporter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EscalatedCall<'a> {
    /// Whose.
    pub brick: &'static BrickInfo,
    /// When it began and ended, tracing included.
    pub start: SystemTime,
    /// See `start`.
    pub end: SystemTime,
    /// Why it was escalated.
    pub reason: EscalationReason,
    /// Its budget in microseconds, if it has one.
    pub budget_us: Option<f64>,
    /// Microseconds that it took, what tracing added taken out.
    pub duration_us: f64,
    /// Where its time went, if it could be observed.
    pub breakdown: Option<&'a SyscallBreakdown>,
    /// Why not, if it could not.
    pub no_breakdown: Option<&'a str>,
}

/// What a tracer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TracerCounts {
    /// Calls that were escalated.
    pub escalated: u64,
    /// Calls that would have been, but for the rate limit.
    pub rate_limited: u64,
    /// Calls that would have been, but for another escalated call at that time.
    pub busy: u64,
    /// Calls of annotated functions that began during escalated calls, and so are in no statistics:
    /// of all tracers of this process, the escalated calls themselves included.
    pub not_recorded: u64,
    /// Nanoseconds in which nothing was recorded: escalated calls, and what it took to begin and to end
    /// to look at them. Also of all tracers of this process.
    pub paused_ns: u64,
}

/// A call that is timed and nothing else.
pub(super) fn plain<T>(budget_us: u64, f: impl FnOnce() -> T) -> TracedBrickResult<T> {
    let begin = Instant::now();
    let result = f();
    let ns = begin.elapsed().as_nanos() as f64;
    timed(result, ns, budget_us)
}

/// A call that took `ns`.
pub(super) fn timed<T>(result: T, ns: f64, budget_us: u64) -> TracedBrickResult<T> {
    let budget_ns = budget_us as f64 * 1e3;
    TracedBrickResult {
        result,
        duration_us: (ns / 1e3).round() as u64,
        syscall_breakdown: None,
        no_breakdown: None,
        // A duration that the clock cannot tell from none counts as one nanosecond.
        efficiency_score: (budget_ns / ns.max(1.0)) as f32,
        over_budget: ns > budget_ns,
        escalation_reason: None,
        otlp_span_id: None,
    }
}
