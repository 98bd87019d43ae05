//! One level of nesting: a call or a poll that is open.

use std::sync::atomic::Ordering::Relaxed;

use super::work::Work;
use super::{Site, mode};
use crate::clock;
use crate::slab::meta::{self, state};
use crate::slab::{Entry, Slab};

/// A call or a poll that is open.
///
/// Copied about in registers: nothing here may be borrowed on the hot path, or it would have to
/// live in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// The slab, if the level was opened on the fast path, and so is to be closed.
    pub(super) fast: Option<&'static Slab>,
    /// The slab, if not; `None` where nothing is recorded.
    slow: Option<&'static Slab>,
    pub(super) meta: u64,
    /// The children's time of the level above.
    above: u64,
    pub(super) start: u64,
}

impl Level {
    /// Opens a level and reads the clock.
    #[inline(always)]
    pub(super) fn open(site: &'static Site) -> Level {
        match site.find_fast() {
            Some((slab, meta)) => {
                let above = enter(slab, meta);
                Level {
                    fast: Some(slab),
                    slow: None,
                    meta,
                    above,
                    start: clock::ticks(),
                }
            }
            None => Level::open_slow(site),
        }
    }

    /// All openings that are not the usual case.
    #[cold]
    #[inline(never)]
    pub(super) fn open_slow(site: &'static Site) -> Level {
        match site.find_slow() {
            Some((slab, meta)) => {
                let above = enter(slab, meta);
                Level {
                    fast: None,
                    slow: Some(slab),
                    meta,
                    above,
                    start: clock::any_ticks(),
                }
            }
            None => Level {
                fast: None,
                slow: None,
                meta: 0,
                above: 0,
                start: 0,
            },
        }
    }

    /// The slab that the level is recorded in.
    pub(super) fn slab(&self) -> Option<&'static Slab> {
        self.fast.or(self.slow)
    }

    /// Closes the level at the tick `now` and appends it; true when the log is due.
    #[inline(always)]
    pub(super) fn close(self, slab: &Slab, now: u64, flags: u64) -> bool {
        // Below zero at worst (see `Slot::call`): the sums wrap, and come out right.
        let amount = now.wrapping_sub(self.start);
        let children = slab.children.get();
        slab.children.set(self.above.wrapping_add(amount));
        slab.state(meta::index(self.meta))
            .store(meta::opened(self.meta), Relaxed);
        slab.append(Entry {
            amount,
            children,
            meta: self.meta | flags,
        })
    }

    /// Closes a level that was opened on the slow path, and appends what the call declared.
    #[cold]
    #[inline(never)]
    pub(super) fn close_slow(
        self,
        flops: u64,
        bytes: u64,
        tokens: u64,
        elements: u64,
        budget_ns: u64,
    ) {
        let work = Work {
            flops,
            bytes,
            tokens,
            elements,
            budget_ns,
        };
        let Some(slab) = self.slow else { return };
        mode::synchronize_if_eager();
        let now = clock::any_ticks();
        self.close(slab, now, work.over(now.saturating_sub(self.start)));
        work.append(slab, self.meta);
        slab.fold_if_due(now);
    }
}

/// Marks the brick as open and begins a new sum of children: the one before.
#[inline(always)]
fn enter(slab: &Slab, meta: u64) -> u64 {
    slab.state(meta::index(meta)).store(state::OPEN, Relaxed);
    let above = slab.children.get();
    slab.children.set(0);
    above
}
