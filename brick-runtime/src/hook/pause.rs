//! A while in which no call is recorded: what runs in it is slowed down by being observed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::mode;
use crate::clock;
use crate::slab;

/// Calls that began in a pause.
static NOT_RECORDED: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds that pauses took.
static PAUSED_NS: AtomicU64 = AtomicU64::new(0);

/// While this lives, calls that begin are not recorded, on any thread.
#[derive(Debug)]
pub(crate) struct Paused {
    since: u64,
    begin: Instant,
}

/// Begins a pause. There is one at a time: the caller sees to that.
pub(crate) fn pause() -> Paused {
    let begin = Instant::now();
    mode::set_paused(true);
    Paused {
        begin,
        since: clock::any_ticks(),
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let took = clock::any_ticks().saturating_sub(self.since);
        if let Some(slab) = slab::owned() {
            // To the brick that is open around the pause it is a child's time, not its own.
            slab.children.add(took);
        }
        mode::set_paused(false);
        // Since the pause began: with what it takes to begin and to end one.
        let ns = self.begin.elapsed().as_nanos() as u64;
        PAUSED_NS.fetch_add(ns, Relaxed);
    }
}

/// Nanoseconds that pauses have taken, in this process.
pub(crate) fn paused_ns() -> u64 {
    PAUSED_NS.load(Relaxed)
}

/// A call began in a pause.
pub(crate) fn count() {
    NOT_RECORDED.fetch_add(1, Relaxed);
}

/// Calls that began in a pause, in this process.
pub(crate) fn not_recorded() -> u64 {
    NOT_RECORDED.load(Relaxed)
}
