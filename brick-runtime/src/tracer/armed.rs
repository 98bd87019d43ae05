//! A tracer for all annotated functions of the process, wherever they are called.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::BrickTracer;
use super::ongoing::{Alone, Cause, Ongoing};
use crate::hook::{mode, pause};
use crate::registry::{BrickInfo, Budget};

/// The tracer that is armed.
static TRACER: Mutex<Option<Arc<BrickTracer>>> = Mutex::new(None);

/// The call that it looks at, and its own reference to the tracer: it may be disarmed meanwhile.
static ONGOING: Mutex<Option<(Arc<BrickTracer>, Ongoing)>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Both are set and taken in one step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this lives, the tracer escalates calls of every annotated function by itself.
#[derive(Debug)]
pub struct Armed {
    tracer: Arc<BrickTracer>,
}

impl Armed {
    pub(super) fn new(tracer: &Arc<BrickTracer>) -> Option<Armed> {
        let mut armed = lock(&TRACER);
        if armed.is_some() {
            return None;
        }
        *armed = Some(Arc::clone(tracer));
        Some(Armed {
            tracer: Arc::clone(tracer),
        })
    }

    /// Looks at the statistics, if that is due (see [`EscalationThresholds::look_every`]). Without this
    /// nothing is ever escalated: call it now and then, such as once for each token or request.
    ///
    /// [`EscalationThresholds::look_every`]: super::EscalationThresholds::look_every
    pub fn look(&self) {
        // Until the calls have come that it is to look at, all calls take the slow path: not for ever
        // because of a brick that is called no more.
        self.tracer.look(true);
        mode::set_armed(self.tracer.watch.any_pending());
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        mode::set_armed(false);
        *lock(&TRACER) = None;
    }
}

/// A call of this brick begins on this thread: true if it is to be looked at, and now is.
pub(crate) fn begin(brick: &'static BrickInfo) -> bool {
    // First of all: what follows may allocate, the allocator may be a brick, and then comes here.
    let Some(alone) = Alone::take() else {
        return false;
    };
    let tracer = TRACER.try_lock().ok().and_then(|tracer| tracer.clone());
    let Some(tracer) = tracer else {
        return false;
    };
    // The threshold before the token.
    let reason = tracer.watch.try_pending(brick);
    let Some(reason) = reason.filter(|_| tracer.take_token()) else {
        return false;
    };
    pause::count();
    let cause = Cause {
        brick,
        budget_us: match brick.budget {
            Budget::Fixed { ns } => Some(ns as f64 / 1e3),
            Budget::None | Budget::PerCall { .. } => None,
        },
        reason,
    };
    let ongoing = tracer.begin(cause, alone);
    *lock(&ONGOING) = Some((tracer, ongoing));
    true
}

/// The call that is looked at has ended.
pub(crate) fn end(panicked: bool) {
    let Some((tracer, ongoing)) = lock(&ONGOING).take() else {
        return;
    };
    if panicked {
        drop(ongoing);
    } else {
        // Whoever wants the id is the exporter itself: nobody waits for a result here.
        tracer.export(&ongoing.end());
    }
    if !tracer.watch.any_pending() {
        mode::set_armed(false);
    }
}
