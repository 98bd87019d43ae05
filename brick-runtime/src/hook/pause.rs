//! A while in which no call is recorded: what runs in it is slowed down by being observed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::mode;
use crate::clock;
use crate::slab;

/// Calls that began in a pause.
static NOT_RECORDED: AtomicU64 = AtomicU64::new(0);

/// While this lives, calls that begin are not recorded, on any thread.
#[derive(Debug)]
pub(crate) struct Paused {
    since: u64,
}

/// Begins a pause. There is one at a time: the caller sees to that.
pub(crate) fn pause() -> Paused {
    mode::set_paused(true);
    Paused {
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
    }
}

/// A call began in a pause.
pub(crate) fn count() {
    NOT_RECORDED.fetch_add(1, Relaxed);
}

/// Calls that began in a pause, in this process.
pub(crate) fn not_recorded() -> u64 {
    NOT_RECORDED.load(Relaxed)
}
