//! One level of nesting: a call or a poll that is open.

use std::sync::atomic::Ordering::Relaxed;

use super::work::{Declares, Work};
use super::{Site, mode};
use crate::clock;
use crate::slab::meta;
use crate::slab::{Slab, sites};
use crate::timeline::live;
use crate::tracer::armed;

/// The start of a call that a tracer looks at: later than any.
pub(super) const ESCALATED: u64 = u64::MAX;

/// A call or a poll that is open.
///
/// Copied about in registers: nothing here may be borrowed on the hot path, or it would have to
/// live in memory.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// The slab, if the level was opened on the fast path, and so is to be closed.
    pub(super) fast: Option<&'static Slab>,
    /// The slab, if not; `None` where nothing is recorded.
    pub(super) slow: Option<&'static Slab>,
    /// The brick's index, and its state before. As wide as registers: with narrower fields, padding
    /// is copied about.
    pub(super) index: u64,
    pub(super) opened: u64,
    /// The children's time when the level was opened: of the level above.
    pub(super) above: u64,
    pub(super) start: u64,
}

impl Level {
    /// Opens a level and reads the clock.
    #[inline(always)]
    pub(super) fn open(site: &'static Site) -> Level {
        match site.find_fast() {
            Some((slab, index, opened)) => {
                let above = enter(slab, index, opened);
                Level {
                    fast: Some(slab),
                    slow: None,
                    index: index.into(),
                    opened: opened.into(),
                    above,
                    start: clock::ticks(),
                }
            }
            None => Level::open_slow(site),
        }
    }

    /// All openings of calls that are not the usual case.
    #[cold]
    #[inline(never)]
    pub(super) fn open_slow(site: &'static Site) -> Level {
        Level::open_recorded(site, None)
    }

    /// Opens a call, or a poll of the async call of that number in a timeline.
    pub(super) fn open_recorded(site: &'static Site, poll_of: Option<&mut Option<u64>>) -> Level {
        if mode::armed() && poll_of.is_none() && armed::begin(site.info()) {
            return Level::unrecorded(ESCALATED);
        }
        match site.find_slow() {
            Some((slab, index, opened)) => {
                let above = enter(slab, index, opened);
                Level {
                    fast: None,
                    slow: Some(slab),
                    index: index.into(),
                    opened: opened.into(),
                    above,
                    start: if mode::recording() {
                        let number =
                            |of: &mut Option<u64>| *of.get_or_insert_with(live::number_call);
                        live::begin_call(site.info(), poll_of.map(number))
                    } else {
                        clock::any_ticks()
                    },
                }
            }
            None => Level::unrecorded(0),
        }
    }

    /// A call that goes into no statistics.
    fn unrecorded(start: u64) -> Level {
        Level {
            fast: None,
            slow: None,
            index: sites::UNREGISTERED.into(),
            opened: meta::ABSENT.into(),
            above: 0,
            start,
        }
    }

    /// The brick's index.
    #[inline(always)]
    pub(super) fn index(&self) -> u16 {
        self.index as u16
    }

    /// The brick's state before.
    #[inline(always)]
    pub(super) fn opened(&self) -> u16 {
        self.opened as u16
    }

    /// The slab that the level is recorded in.
    pub(super) fn slab(&self) -> Option<&'static Slab> {
        self.fast.or(self.slow)
    }

    /// Closes the level at the tick `now`: the ticks it took, and its children.
    #[inline(always)]
    pub(super) fn close(&self, slab: &Slab, now: u64) -> (u64, u64) {
        // Below zero at worst (see `Slot::call`): the sums wrap, and come out right.
        let ticks = now.wrapping_sub(self.start);
        let children = slab.children.get().wrapping_sub(self.above);
        // For the level above, this took what its own and its children's time is.
        slab.children.set(self.above.wrapping_add(ticks));
        slab.state(self.index()).store(self.opened(), Relaxed);
        (ticks, children)
    }

    /// Closes the level at the tick `now` as a call, with what the call declared: the tick at which
    /// what comes next begins.
    #[inline(always)]
    pub(super) fn close_call(&self, slab: &Slab, now: u64, work: &impl Declares) -> u64 {
        let (ticks, children) = self.close(slab, now);
        let passed = now.saturating_sub(self.start);
        work.append(slab, self.index(), self.opened(), passed);
        slab.append_call(ticks, self.opened(), children, now)
    }

    /// Closes a level that was opened on the slow path, as a call.
    fn close_declared(&self, work: &impl Declares) {
        if let Some(slab) = self.slow {
            mode::synchronize_if_eager();
            let now = clock::any_ticks();
            self.close_call(slab, now, work);
            self.end_event(now, false, &work.work());
        } else if self.start == ESCALATED {
            armed::end(false);
        }
    }

    /// The level ended at the tick `now`, if a timeline is recorded and has it.
    pub(super) fn end_event(&self, now: u64, panicked: bool, work: &Work) {
        if mode::recording() {
            live::end_call(self.start, now, panicked, work.declared());
        }
    }

    /// Closes a level that was opened on the slow path, as a call that declared nothing.
    #[inline(always)]
    pub(super) fn close_slow(self) {
        close_slow(self.slow, self.index, self.opened, self.above, self.start);
    }

    /// Closes a level that was opened on the slow path, as a call that declared this.
    #[inline(always)]
    pub(super) fn close_slow_with(self, work: &Work) {
        close_slow_with(
            self.slow,
            self.index,
            self.opened,
            self.above,
            self.start,
            work.flops,
            work.bytes,
            work.tokens,
            work.elements,
            work.budget_ns,
        );
    }
}

/// Word by word, so that no level has to live in memory.
#[cold]
#[inline(never)]
fn close_slow(slow: Option<&'static Slab>, index: u64, opened: u64, above: u64, start: u64) {
    let level = Level {
        fast: None,
        slow,
        index,
        opened,
        above,
        start,
    };
    level.close_declared(&());
}

/// Word by word, so that no level and no work has to live in memory.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn close_slow_with(
    slow: Option<&'static Slab>,
    index: u64,
    opened: u64,
    above: u64,
    start: u64,
    flops: u64,
    bytes: u64,
    tokens: u64,
    elements: u64,
    budget_ns: u64,
) {
    let level = Level {
        fast: None,
        slow,
        index,
        opened,
        above,
        start,
    };
    level.close_declared(&Work {
        flops,
        bytes,
        tokens,
        elements,
        budget_ns,
        ..Work::NONE
    });
}

/// Marks the brick as open: the children's time so far.
#[inline(always)]
fn enter(slab: &Slab, index: u16, opened: u16) -> u64 {
    slab.state(index).store(meta::open(opened), Relaxed);
    slab.children.get()
}
