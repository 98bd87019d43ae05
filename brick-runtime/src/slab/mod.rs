//! One slab per thread: its log, its ledger and what it needs at entry.
//!
//! A slab is found through a thread-local pointer without destructor, so that access is one
//! load. It is claimed at a thread's first brick and handed back when the thread ends, with all
//! that it counted; the next thread goes on counting in it. So nothing is lost, nothing is
//! shared, and memory is bounded by the largest number of threads alive at one time.
//!
//! The unsafe code in here is run under Miri by
//!
//! ```text
//! MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-tree-borrows-no-precise-interior-mut" \
//!     cargo +nightly miri test -p brick-runtime --features visualization,serde,half \
//!     --lib --test threads --test reset --test tasks --test statistics --test contracts
//! ```

mod lanes;
pub(crate) mod ledger;
pub(crate) mod log;
pub(crate) mod meta;
mod pool;
pub(crate) mod read;
mod run;
pub(crate) mod sites;

#[cfg(not(miri))]
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU16, AtomicU32, Ordering::Relaxed};

use self::ledger::{Cell64, Ledger, MAX_BRICKS};
use self::log::{Entry, Log};
use self::meta::Kind;
pub(crate) use self::pool::{claimed, count_dropped, current, owned, owned_or_claim, set_gates};
use crate::clock;
use crate::contract;
use crate::hook::mode;
use crate::registry::{BrickInfo, Budget};
use crate::timeline::live;

/// Entries pending at which the log is folded: few enough to stay in the L1 cache, many enough
/// that the fold's own fixed cost does not count. One entry is of the fold before; what is left
/// is a multiple of the eight that a fold takes at a time.
const DUE: u64 = 241;
/// Entries that fit: while a reader is at work, a fold is put off up to here. That gives it 0.2 ms
/// at the fastest; pages that are never reached are never touched.
const CAPACITY: usize = if cfg!(miri) { 512 } else { 8192 };
/// States of a slab: one per index there could be, so that none is out of bounds.
const STATES: usize = if cfg!(miri) { 64 } else { 1 << 16 };
/// Entries that one call may append after the last test for room.
const SLACK: u64 = 16;

/// What one thread writes. All zeroes is a valid empty slab.
///
/// What every call touches lies at offsets that differ in their low 12 bits (see `Log`): the
/// words up here below 0x100, the states of five hundred bricks from there to 0x4d8, the log's
/// length, and the first [`DUE`] amounts and metas in what is left of a page.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Slab {
    /// Whether calls may take the fast path.
    open: AtomicU8,
    /// Whether they may, and every call of every brick is checked.
    all_checked: AtomicU8,
    /// Ticks of the calls that ended since the innermost open one began.
    pub(crate) children: Cell64,
    /// The code of the layer that the thread is in.
    pub(crate) layer: Cell64,
    head: [Cell64; 29],
    /// Pages without a brick are never touched.
    states: [AtomicU16; STATES],
    rest: [Cell64; 123],
    log: Log<CAPACITY>,
    ledger: Ledger,
    /// Calls until the next that is checked, per brick.
    skips: [AtomicU32; MAX_BRICKS],
    /// The next slab in the list of all; set before it is in there.
    next: AtomicPtr<Slab>,
    /// The next slab in the list of free ones; only under the pool's lock.
    next_free: AtomicPtr<Slab>,
}

/// What the fast paths of a slab depend on. Written by whoever changes it.
#[derive(Clone, Copy, Debug)]
struct Gates {
    open: bool,
    all_checked: bool,
}

impl Gates {
    /// As mode and sampling now say.
    fn get() -> Gates {
        let open = mode::get() == 0;
        Gates {
            open,
            all_checked: open && contract::all_checked(),
        }
    }
}

#[cfg(not(miri))]
const _: () = {
    assert!(offset_of!(Slab, states) % 4096 == 0x100);
    assert!(offset_of!(Slab, log.len) % 4096 == 0x4d8);
    assert!(offset_of!(Slab, log.amounts) % 4096 == 0x500);
    assert!(offset_of!(Slab, log.metas) % 4096 == 0xd00);
};

impl Slab {
    fn set_gates(&self, Gates { open, all_checked }: Gates) {
        self.open.store(open.into(), Relaxed);
        self.all_checked.store(all_checked.into(), Relaxed);
    }

    /// A brick's state when a call begins or ends.
    #[inline(always)]
    pub(crate) fn state(&self, index: u16) -> &AtomicU16 {
        &self.states[usize::from(index) % STATES]
    }

    /// Whether calls take the fast path: nothing is recorded but statistics.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Relaxed) != 0
    }

    /// Whether calls take the fast path, and every call of every brick is checked.
    #[inline(always)]
    pub(crate) fn all_checked(&self) -> bool {
        self.all_checked.load(Relaxed) != 0
    }

    /// Appends a call that ended at the tick `now`, the last entry of it, and folds the log if it
    /// is due: the tick at which what comes next begins.
    #[inline(always)]
    pub(crate) fn append_call(&self, ticks: u64, meta: u16, children: u64, now: u64) -> u64 {
        let detailed = meta | meta::CHILDREN;
        if self.log.try_append(ticks, meta, children, detailed, DUE) {
            now
        } else {
            self.append_due(ticks, meta, children, now)
        }
    }

    #[cold]
    #[inline(never)]
    fn append_due(&self, ticks: u64, meta: u16, children: u64, now: u64) -> u64 {
        let detailed = if children != 0 { meta::CHILDREN } else { 0 };
        self.log.append(Entry {
            amount: ticks,
            meta: meta | detailed,
            detail: children,
        });
        self.settle(now);
        clock::any_ticks()
    }

    /// Appends any other entry.
    #[inline]
    pub(crate) fn append(&self, kind: Kind, index: u16, amount: u64) {
        self.log.append(Entry {
            amount,
            meta: meta::OTHER,
            detail: kind.of(index),
        });
    }

    /// Appends an entry to each brick that is open on the thread. Looks at every brick of the process:
    /// some tens of loads.
    pub(crate) fn append_to_open(&self, kind: Kind, amount: u64) {
        for index in sites::indices() {
            if meta::is_open(self.state(index).load(Relaxed)) {
                self.append(kind, index, amount);
                if self.is_due() {
                    self.settle(clock::any_ticks());
                }
            }
        }
    }

    /// Whether the log should be folded.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.log.len() >= DUE
    }

    /// Folds the log if it is due and no reader is at work (or it is full). `now` is the tick
    /// at which the call that made it due ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn settle(&self, now: u64) {
        if !self.is_due() || self.log.held() && self.log.len() < CAPACITY as u64 - SLACK {
            return;
        }
        self.log.fold(&self.ledger);
        let end = clock::any_ticks();
        let took = end.saturating_sub(now);
        // Nobody's self time: the open call takes it for a child's.
        self.children.add(took);
        self.append(Kind::Fold, sites::PROFILER, took);
        if mode::recording() {
            live::folded(now, end);
        }
    }

    /// Does on its own thread what a reset asked for. Clearing all statistics takes tens of microseconds:
    /// at the next fold it would be in the time of what the reset was for.
    pub(crate) fn clear_now(&self) {
        self.log.fold(&self.ledger);
    }

    /// From here on the thread is in another layer: the code of the one before.
    pub(crate) fn enter_layer(&self, code: u64) -> u64 {
        let before = self.layer.get();
        self.layer.set(code);
        self.append(Kind::Layer, sites::PROFILER, code);
        if self.is_due() {
            self.settle(clock::any_ticks());
        }
        before
    }

    /// Makes a slot for a brick, so that its calls can be recorded.
    #[cold]
    fn admit(&self, index: u16, info: &BrickInfo) {
        let budget = match info.budget {
            Budget::Fixed { ns } => clock::from_ns(ns),
            Budget::None | Budget::PerCall { .. } => u64::MAX,
        };
        self.ledger.slot_or_new(index, budget);
        self.state(index).store(meta::idle(index), Relaxed);
    }

    /// Whether this call's results are to be checked when one in `every` is.
    pub(crate) fn samples(&self, index: u16, every: u32) -> bool {
        let skip = &self.skips[usize::from(index) % MAX_BRICKS];
        let left = skip.load(Relaxed);
        skip.store(
            if left == 0 {
                every.saturating_sub(1)
            } else {
                left - 1
            },
            Relaxed,
        );
        left == 0
    }

    /// Begins the slab's use by another thread.
    fn take_over(&self) {
        self.log.take_over();
    }

    /// Ends the slab's use by a thread. Calls that were open never end.
    fn retire(&self) {
        self.enter_layer(0);
        self.log.fold(&self.ledger);
        self.children.set(0);
        for state in sites::indices().map(|index| self.state(index)) {
            state.store(meta::close(state.load(Relaxed)), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes after the call that made a fold due begins when the fold has ended.
    #[test]
    fn a_fold_is_in_no_time_but_its_own() {
        let slab = owned_or_claim().expect("a slab");
        // Of no brick that there is: it is folded into nothing.
        let meta = meta::idle(MAX_BRICKS as u16 - 1);
        while slab.log.len() < DUE - 1 {
            assert_eq!(slab.append_call(1, meta, 0, 7), 7);
        }
        // Put off while somebody reads.
        let before = slab.children.get();
        let (now, next) = loop {
            let now = clock::any_ticks();
            let next = slab.append_call(1, meta, 0, now);
            if slab.log.len() < DUE {
                break (now, next);
            }
        };
        let took = slab.children.get() - before;
        assert!(took > 0 && next >= now + took, "{took} of {now} to {next}");
    }
}
