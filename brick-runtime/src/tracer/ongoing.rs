//! A call that is being escalated: from the pause to the breakdown.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::time::{Instant, SystemTime};

use super::breakdown::{BackendProblem, SyscallBreakdown};
use super::call::EscalatedCall;
use super::observer::{Observation, Observer};
use super::thresholds::EscalationReason;
use crate::registry::BrickInfo;

#[cfg(feature = "visualization")]
pub(super) use crate::hook::pause;

/// Without `visualization` there is nothing to pause.
#[cfg(not(feature = "visualization"))]
pub(super) mod pause {
    /// Of nothing.
    #[derive(Debug)]
    pub(in crate::tracer) struct Paused;
    pub(in crate::tracer) fn pause() -> Paused {
        Paused
    }
    pub(in crate::tracer) fn not_recorded() -> u64 {
        0
    }
    pub(in crate::tracer) fn paused_ns() -> u64 {
        0
    }
}

/// One escalated call at a time in a process: they would observe each other.
#[derive(Debug)]
pub(super) struct Alone(());

static TAKEN: AtomicBool = AtomicBool::new(false);

impl Alone {
    /// `None` while there is another.
    pub(super) fn take() -> Option<Alone> {
        (!TAKEN.swap(true, Acquire)).then_some(Alone(()))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        TAKEN.store(false, Release);
    }
}

/// Why this call is escalated, and of what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cause {
    pub(super) brick: &'static BrickInfo,
    pub(super) budget_us: Option<f64>,
    pub(super) reason: EscalationReason,
}

/// A call while it runs. Dropped by a panic, it lets go of everything, the last field last.
#[derive(Debug)]
pub(super) struct Ongoing {
    cause: Cause,
    begin: Instant,
    observation: Result<Observation, BackendProblem>,
    _paused: pause::Paused,
    _alone: Alone,
}

impl Ongoing {
    /// From here on nothing is recorded and, if there is a way, every system call is seen.
    pub(super) fn begin(cause: Cause, observer: &Observer, alone: Alone) -> Ongoing {
        let paused = pause::pause();
        let observation = observer.start();
        Ongoing {
            cause,
            observation,
            _paused: paused,
            _alone: alone,
            begin: Instant::now(),
        }
    }

    /// The call has returned.
    pub(super) fn end(self) -> Escalated {
        let took = self.begin.elapsed();
        let mut ns = took.as_nanos() as f64;
        let (breakdown, no_breakdown) = match self.observation.map(Observation::end) {
            Ok(breakdown) => {
                if let [Some(wall), Some(tracer)] =
                    [&breakdown.wall_us, &breakdown.tracer_us].map(|figure| figure.value())
                {
                    ns = (wall - tracer).max(0.0) * 1e3;
                }
                (Some(breakdown), None)
            }
            Err(problem) => (None, Some(problem.to_string().into())),
        };
        // The time of day is asked when nobody looks any more.
        let start = SystemTime::now() - self.begin.elapsed();
        Escalated {
            cause: self.cause,
            start,
            end: start + took,
            ns,
            breakdown,
            no_breakdown,
        }
    }
}

/// A call that was escalated.
#[derive(Debug)]
pub(super) struct Escalated {
    pub(super) cause: Cause,
    start: SystemTime,
    end: SystemTime,
    /// Nanoseconds without what tracing added.
    pub(super) ns: f64,
    pub(super) breakdown: Option<SyscallBreakdown>,
    pub(super) no_breakdown: Option<Cow<'static, str>>,
}

impl Escalated {
    /// For an exporter.
    pub(super) fn call(&self) -> EscalatedCall<'_> {
        let Cause {
            brick,
            budget_us,
            reason,
        } = self.cause;
        EscalatedCall {
            brick,
            start: self.start,
            end: self.end,
            reason,
            budget_us,
            duration_us: self.ns / 1e3,
            breakdown: self.breakdown.as_ref(),
            no_breakdown: self.no_breakdown.as_deref(),
        }
    }
}
