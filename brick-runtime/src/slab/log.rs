//! The log: what one thread writes for each call, and how others read it meanwhile.
//!
//! One thread (the owner) appends entries and, when enough are pending, folds them
//! into a ledger. Any number of readers, one at a time, read ledger and pending entries
//! together, without ever making the owner wait:
//!
//! - An append stores the entry, then the length (release). Within one *epoch* an entry is never
//!   overwritten, so a reader that saw the length (acquire) may read all entries below it.
//! - A fold is the writer's side of a seqlock: the epoch is odd while it runs. A reader
//!   that met a fold throws its copy away and tries again (Boehm, "Can seqlocks get along with
//!   programming language memory models?", MSPC 2012, for the fences).
//! - `hold` is a hint that a reader is at work: the owner then puts its fold off while there is
//!   room. Nothing but the reader's progress depends on it.
//! - A reset is asked for by a reader as a mark (epoch and length) and carried out by the owner
//!   at its next fold; until then readers skip what lies before the mark.

use crate::sync::{
    AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};

/// Bits of a reset mark that hold the length; a log is shorter than this.
const MARK_LEN_BITS: u32 = 16;

/// A single-writer log of at most `CAP` pending entries. All zeroes is a valid empty log.
///
/// One array per word of an entry: an append then needs no arithmetic, and a fold can take
/// several entries at once.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Log<const CAP: usize> {
    pub(super) len: AtomicU64,
    pub(super) epoch: AtomicU64,
    pub(super) hold: AtomicU64,
    pub(super) reset_asked: AtomicU64,
    pub(super) reset_done: AtomicU64,
    /// Mostly ticks.
    pub(super) amounts: [AtomicU64; CAP],
    /// See [`APART`].
    pub(super) apart: [u64; APART],
    /// Which brick's call it is, or that it is no call (see `meta`).
    pub(super) metas: [AtomicU16; CAP],
    /// Of entries that need one (see `meta`); else what was there before.
    pub(super) details: [AtomicU64; CAP],
}

/// Words between the arrays that every call writes: as many as are usually pending. Were they
/// whole pages apart, two words of an entry would have the same low 12 bits of address, and
/// the processor takes a load for dependent on every store in flight that looks like
/// it (4 KiB aliasing: 1.6 ns per call, measured).
pub(super) const APART: usize = 256;

/// One entry of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) amount: u64,
    pub(crate) meta: u16,
    pub(crate) detail: u64,
}

/// The words of some entries, one slice each, of equal length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    pub(crate) amounts: &'a [AtomicU64],
    pub(crate) metas: &'a [AtomicU16],
    pub(crate) details: &'a [AtomicU64],
}

impl Entries<'_> {
    #[inline(always)]
    pub(crate) fn get(self, i: usize) -> Entry {
        Entry {
            amount: self.amounts[i].load(Relaxed),
            meta: self.metas[i].load(Relaxed),
            detail: self.details[i].load(Relaxed),
        }
    }
}

/// What a log is folded into.
pub(crate) trait Sink {
    /// Forgets all counts: a reset was asked for.
    fn clear(&self);
    /// Entries from before the reset.
    fn skip(&self, entries: Entries<'_>);
    /// Entries that count. Nobody else may write them until this returns.
    fn apply(&self, entries: Entries<'_>);
}

/// What a reader may look at in one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// The ledger counts; false where a reset is asked for and not carried out yet.
    pub(crate) ledger: bool,
    /// Pending entries before this one lie before a reset.
    pub(crate) from: usize,
    /// Pending entries.
    pub(crate) len: usize,
}

impl<const CAP: usize> Log<CAP> {
    /// Checked where it is used: a mark must be able to hold any length.
    const FITS: () = assert!(CAP.is_power_of_two() && CAP < 1 << MARK_LEN_BITS);

    /// A new owner, once the last one has handed over: what it stores counts as stored after the
    /// folds of those before it. (Fences are a thread's own: without this a reader could
    /// see an entry of the new owner and still not the epoch that the last one left. The model
    /// test found it.)
    pub(crate) fn take_over(&self) {
        fence(Release);
    }

    /// Owner: appends an entry, unless `due` entries or more are pending then: false. Without a
    /// detail its meta is `meta`, else `detailed`.
    #[inline(always)]
    pub(crate) fn try_append(
        &self,
        amount: u64,
        meta: u16,
        detail: u64,
        detailed: u16,
        due: u64,
    ) -> bool {
        let n = self.len.load(Relaxed);
        if n >= due - 1 {
            return false;
        }
        // Where `due` is a constant within the log, this is in bounds.
        let i = n as usize;
        self.amounts[i].store(amount, Relaxed);
        self.metas[i].store(meta, Relaxed);
        if detail != 0 {
            self.metas[i].store(detailed, Relaxed);
            self.details[i].store(detail, Relaxed);
        }
        self.len.store(n + 1, Release);
        true
    }

    /// Owner: appends an entry. The caller folds before the log is full.
    #[inline]
    pub(crate) fn append(&self, entry: Entry) {
        let n = self.len.load(Relaxed);
        // Never wraps, see the callers.
        let i = n as usize & (CAP - 1);
        self.amounts[i].store(entry.amount, Relaxed);
        self.metas[i].store(entry.meta, Relaxed);
        self.details[i].store(entry.detail, Relaxed);
        self.len.store(n + 1, Release);
    }

    /// Owner: entries pending.
    #[inline(always)]
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// A reader would be glad if the next fold came later.
    pub(crate) fn held(&self) -> bool {
        self.hold.load(Relaxed) != 0
    }

    /// Owner: empties the log into `sink`.
    pub(crate) fn fold(&self, sink: &impl Sink) {
        let epoch = self.epoch.load(Relaxed);
        self.epoch.store(epoch + 1, Relaxed);
        // Whoever sees a store from below this fence also sees the odd epoch.
        fence(Release);
        let len = (self.len.load(Relaxed) as usize).min(CAP);
        let asked = self.reset_asked.load(Acquire);
        let mut from = 0;
        if asked != self.reset_done.load(Relaxed) {
            sink.clear();
            self.reset_done.store(asked, Relaxed);
            from = mark_in(asked, epoch).min(len);
        }
        if from > 0 {
            sink.skip(self.entries(0, from));
        }
        sink.apply(self.entries(from, len));
        self.len.store(0, Relaxed);
        self.epoch.store(epoch + 2, Release);
    }

    /// Reader: `copy` copies the ledger and the pending entries (`entry(i)`); `retry` runs
    /// before each further attempt. Returns the copy that no fold disturbed.
    pub(crate) fn read<R>(&self, mut copy: impl FnMut(View) -> R, mut retry: impl FnMut()) -> R {
        let () = Self::FITS;
        self.hold.store(1, Relaxed);
        let got = loop {
            let epoch = self.epoch.load(Acquire);
            if epoch & 1 == 0 {
                let len = (self.len.load(Acquire) as usize).min(CAP);
                let asked = self.reset_asked.load(Relaxed);
                let ledger = asked == self.reset_done.load(Relaxed);
                let from = if ledger {
                    0
                } else {
                    mark_in(asked, epoch).min(len)
                };
                let got = copy(View { ledger, from, len });
                fence(Acquire);
                if self.epoch.load(Relaxed) == epoch {
                    break got;
                }
            }
            retry();
        };
        self.hold.store(0, Relaxed);
        got
    }

    fn entries(&self, from: usize, to: usize) -> Entries<'_> {
        Entries {
            amounts: &self.amounts[from..to],
            metas: &self.metas[from..to],
            details: &self.details[from..to],
        }
    }

    /// Reader: an entry; true only of an undisturbed `read`.
    pub(crate) fn entry(&self, i: usize) -> Entry {
        self.entries(0, CAP).get(i)
    }

    /// Reader: asks that everything recorded so far be forgotten. What the owner records while
    /// this runs falls on either side; its order is kept.
    pub(crate) fn ask_reset(&self, mut retry: impl FnMut()) {
        let mark = loop {
            let epoch = self.epoch.load(Acquire);
            let len = self.len.load(Acquire);
            fence(Acquire);
            if epoch & 1 == 0 && self.epoch.load(Relaxed) == epoch {
                break epoch << MARK_LEN_BITS | len;
            }
            retry();
        };
        self.reset_asked.store(mark, Release);
    }
}

/// Where in the log of `epoch` a reset mark lies. A mark of an earlier epoch lies at the start:
/// what was pending then has been folded, and the ledger is about to be cleared.
fn mark_in(mark: u64, epoch: u64) -> usize {
    if mark >> MARK_LEN_BITS == epoch {
        (mark & ((1 << MARK_LEN_BITS) - 1)) as usize
    } else {
        0
    }
}
