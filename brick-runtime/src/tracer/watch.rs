//! What the profiler's statistics say of each brick, looked at now and then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::thresholds::{EscalationReason, EscalationThresholds};
use crate::registry::{Backend, BrickInfo};
use crate::snapshot::Snapshot;
use crate::stats::BrickStats;

/// The verdicts on all bricks.
///
/// A verdict is of the calls since the last one, not of all calls ever: so a slow start is held
/// against a brick once, and a brick that goes bad late is noticed. It is good for one escalated
/// call; the next verdict takes `min_calls` more that were not.
#[derive(Debug)]
pub(super) struct Watch {
    started: Instant,
    every: Duration,
    /// When to look again: nanoseconds since `started`.
    due: AtomicU64,
    /// Verdicts that wait for their brick's next call.
    pending: AtomicUsize,
    bricks: Mutex<HashMap<Key, Watched>>,
}

type Key = (u64, Backend);

#[derive(Debug)]
struct Watched {
    /// The statistics at the last verdict.
    base: Option<BrickStats>,
    pending: Option<EscalationReason>,
}

fn key(info: &BrickInfo) -> Key {
    (info.wire_id, info.backend)
}

impl Watch {
    /// That looks no more often than `every`.
    pub(super) fn new(now: Instant, every: Duration) -> Watch {
        Watch {
            started: now,
            every,
            due: AtomicU64::new(0),
            pending: AtomicUsize::new(0),
            bricks: Mutex::default(),
        }
    }

    /// Whether it is time to look again; says so to one caller.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let now = now.saturating_duration_since(self.started).as_nanos() as u64;
        let due = self.due.load(Relaxed);
        let next = now + self.every.as_nanos() as u64;
        now >= due
            && self
                .due
                .compare_exchange(due, next, Relaxed, Relaxed)
                .is_ok()
    }

    /// Looks at what happened.
    pub(super) fn look(&self, snapshot: &Snapshot, thresholds: &EscalationThresholds) {
        let mut bricks = self.lock();
        for now in snapshot.bricks() {
            let watched = bricks.entry(key(now.info())).or_insert(Watched {
                base: None,
                pending: None,
            });
            let window = match &watched.base {
                // The profiler was reset.
                Some(base) if base.calls() > now.calls() => {
                    watched.base = None;
                    now.clone()
                }
                Some(base) => now.since(base),
                None => now.clone(),
            };
            if window.timed_calls() < thresholds.min_calls.max(2) {
                continue;
            }
            let unknown = f64::NAN;
            let efficiency = window.efficiency().value().unwrap_or(unknown);
            watched.pending = thresholds.reason(window.cv().unwrap_or(unknown), efficiency);
            watched.base = Some(now.clone());
        }
        let pending = bricks.values().filter(|watched| watched.pending.is_some());
        self.pending.store(pending.count(), Relaxed);
    }

    /// Forgets the verdicts that wait.
    pub(super) fn drop_pending(&self) {
        let mut bricks = self.lock();
        bricks
            .values_mut()
            .for_each(|watched| watched.pending = None);
        self.pending.store(0, Relaxed);
    }

    /// Whether any verdict waits.
    pub(super) fn any_pending(&self) -> bool {
        self.pending.load(Relaxed) > 0
    }

    /// [`pending`](Self::pending), or `None` at once where somebody is looking.
    #[cfg(feature = "visualization")]
    pub(super) fn try_pending(&self, info: &BrickInfo) -> Option<EscalationReason> {
        self.bricks.try_lock().ok()?.get(&key(info))?.pending
    }

    /// The verdict that waits for this brick's next call.
    pub(super) fn pending(&self, info: &BrickInfo) -> Option<EscalationReason> {
        if !self.any_pending() {
            return None;
        }
        self.lock().get(&key(info))?.pending
    }

    /// The verdict has had its call.
    pub(super) fn spend(&self, info: &BrickInfo) {
        if let Some(watched) = self.lock().get_mut(&key(info))
            && watched.pending.take().is_some()
        {
            self.pending.fetch_sub(1, Relaxed);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Watched>> {
        self.bricks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
