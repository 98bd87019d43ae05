//! The ledger: what a log is folded into, one slot per brick.
//!
//! A ledger in a slab is written by its owner alone, so every update is a relaxed load and
//! store, plain `mov`s; the log's epoch tells readers when their copy was disturbed. A reader
//! folds pending entries into a ledger of its own with the same code.
//!
//! Folding is most of what a call costs after its two clock reads. A kernel is mostly called
//! many times in a row, so calls of one brick are taken as a run: their statistics are summed in
//! registers (see `lanes`) and added to the slot once.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::lanes::Lanes;
use super::log::{Entries, Entry, Sink};
use super::meta::{self, Kind};
use super::run::Run;
use super::sites;
use crate::histogram::{BUCKETS, bucket};

/// Bricks that can be told apart in one process; calls of any beyond are counted as dropped.
/// (Miri looks at every cell of a slab each time that one is referred to: few will do.)
pub(crate) const MAX_BRICKS: usize = if cfg!(miri) { 32 } else { 2048 };
/// Layers that are told apart; the last one also takes all above it.
pub(crate) const MAX_LAYERS: usize = 128;

/// Calls that wait in a slot: the fixed cost of summing them is shared by so many.
const WAITING: usize = 32;

/// A counter with one writer.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Cell64(AtomicU64);

impl Cell64 {
    #[inline(always)]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
    /// Wraps: sums of ticks have centuries, and self times may pass below zero on the way.
    #[inline(always)]
    pub(crate) fn add(&self, value: u64) {
        self.set(self.get().wrapping_add(value));
    }
    #[inline(always)]
    fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }
}

/// Count, sum and extremes of some durations. Zeroed, it is empty.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Spread {
    pub(crate) count: Cell64,
    pub(crate) total: Cell64,
    /// Inverted, so that zeroed memory means "none yet".
    pub(crate) min_inverted: Cell64,
    pub(crate) max: Cell64,
}

impl Spread {
    fn add(&self, run: Run) {
        self.count.add(run.count);
        self.total.add(run.total);
        self.min_inverted.raise(!run.min);
        self.max.raise(run.max);
    }

    fn clear(&self) {
        for cell in [&self.count, &self.total, &self.min_inverted, &self.max] {
            cell.set(0);
        }
    }

    fn copy(&self, from: &Spread) {
        self.count.set(from.count.get());
        self.total.set(from.total.get());
        self.min_inverted.set(from.min_inverted.get());
        self.max.set(from.max.get());
    }
}

/// What one thread knows of one brick.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot {
    /// A fixed budget in ticks; `u64::MAX` is none.
    pub(crate) budget: Cell64,
    pub(crate) total: Cell64,
    pub(crate) min_inverted: Cell64,
    pub(crate) max: Cell64,
    /// Sum of squared ticks: the bits of an `f64`.
    pub(crate) squares: Cell64,
    /// Self time of all calls and polls.
    pub(crate) own: Cell64,
    /// Calls that wait until there are enough to be summed in vectors, and the layer they were
    /// made in.
    waiting: [Cell64; WAITING],
    waiting_count: Cell64,
    waiting_layer: Cell64,
    /// Rows of `layers` that may hold something.
    layered: Cell64,
    /// Recursive calls.
    pub(crate) recursive: Cell64,
    pub(crate) polls: Cell64,
    /// By kind.
    sums: [Cell64; meta::SUMMED],
    pub(crate) checks: Spread,
    pub(crate) latency: Spread,
    /// Outermost calls by duration; their number is the sum of all buckets.
    pub(crate) histogram: [[Cell64; BUCKETS]; 4],
    pub(crate) layers: [Spread; MAX_LAYERS],
}

impl Slot {
    /// The sum of the amounts of one kind, which is one of the summed.
    pub(crate) fn sum(&self, kind: Kind) -> u64 {
        self.sums[kind as usize].get()
    }

    /// Outermost calls, eight at a time as far as they fit: how many that is.
    #[inline(never)]
    fn calls(&self, ticks: &[u64], layer: u64) -> usize {
        let (mut lanes, mut n) = (Lanes::new(), 0);
        for eight in ticks.as_chunks::<8>().0 {
            let Some(buckets) = lanes.add(eight) else {
                break;
            };
            // Four histograms by turns: an increment waits for the one before of the same bucket.
            for (i, bucket) in buckets.iter().enumerate() {
                // SAFETY: `Buckets` are below `BUCKETS`.
                unsafe { self.histogram[i % 4].get_unchecked(bucket) }.add(1);
            }
            n += 8;
        }
        if n > 0 {
            let (run, budget) = (lanes.run(n as u64), self.budget.get());
            if run.max > budget {
                let over = ticks[..n].iter().filter(|&&t| t > budget).count();
                self.sums[Kind::Over as usize].add(over as u64);
            }
            self.own.add(run.total);
            self.add(run, layer);
        }
        n
    }

    /// One outermost call, put aside until there are enough.
    #[inline]
    fn put(&self, ticks: u64, layer: u64) {
        if self.waiting_layer.get() != layer {
            self.settle();
            self.waiting_layer.set(layer);
        }
        let n = self.waiting_count.get() as usize % WAITING;
        self.waiting[n].set(ticks);
        self.waiting_count.set(n as u64 + 1);
        if n + 1 == WAITING {
            self.take_waiting(layer);
        }
    }

    /// Counts all the calls that there is room for.
    fn take_waiting(&self, layer: u64) {
        // SAFETY: a `Cell64` has the layout of `u64`, and only the caller writes the slot.
        let ticks = unsafe { &*(&raw const self.waiting).cast::<[u64; WAITING]>() };
        let mut n = self.calls(ticks, layer);
        while n < WAITING {
            ticks[n..n + 8].iter().for_each(|&t| self.call(t, layer));
            n += 8;
            n += self.calls(&ticks[n..], layer);
        }
        self.waiting_count.set(0);
    }

    /// Counts the calls that were put aside.
    fn settle(&self) {
        let (n, layer) = (self.waiting_count.get(), self.waiting_layer.get());
        for waiting in self.waiting.iter().take(n as usize) {
            self.call(waiting.get(), layer);
        }
        self.waiting_count.set(0);
    }

    /// One outermost call that ended.
    #[inline]
    fn call(&self, ticks: u64, layer: u64) {
        // Below zero, if the processors' counters disagree and the thread moved.
        let ticks = if (ticks as i64) < 0 { 0 } else { ticks };
        self.own.add(ticks);
        self.histogram[0][bucket(ticks)].add(1);
        self.sums[Kind::Over as usize].add((ticks > self.budget.get()).into());
        self.add(Run::one(ticks), layer);
    }

    #[inline]
    fn add(&self, run: Run, layer: u64) {
        self.total.add(run.total);
        self.min_inverted.raise(!run.min);
        self.max.raise(run.max);
        self.squares
            .set((f64::from_bits(self.squares.get()) + run.squares).to_bits());
        if layer != 0 {
            let row = (layer as usize).min(MAX_LAYERS);
            self.layers[row - 1].add(run);
            self.layered.raise(row as u64);
        }
    }

    /// Copies every field into this empty slot.
    fn copy(&self, from: &Slot) {
        for (to, from) in self.header().iter().zip(from.header()) {
            to.set(from.get());
        }
        // Of what was copied, not of `from`: that may be counting meanwhile, and what is outside
        // of this slot's own bounds would never be cleared.
        for row in 0..self.layered() {
            self.layers[row].copy(&from.layers[row]);
        }
        for (to, from) in self.histogram.iter().zip(&from.histogram) {
            for bucket in self.filled() {
                to[bucket].set(from[bucket].get());
            }
        }
    }

    /// Forgets everything but the budget.
    fn clear(&self) {
        let budget = self.budget.get();
        self.layers[..self.layered()].iter().for_each(Spread::clear);
        for histogram in &self.histogram {
            histogram[self.filled()].iter().for_each(|b| b.set(0));
        }
        self.header().iter().for_each(|w| w.set(0));
        self.budget.set(budget);
    }

    /// Rows of `layers` that may hold something; the others are zero.
    fn layered(&self) -> usize {
        self.layered.get().min(MAX_LAYERS as u64) as usize
    }

    /// Buckets that may hold something; the others are zero. A torn copy may say any minimum and
    /// maximum, `bucket` keeps them in bounds.
    fn filled(&self) -> Range<usize> {
        let (min, max) = (!self.min_inverted.get(), self.max.get());
        if min <= max {
            bucket(min)..bucket(max) + 1
        } else {
            0..0
        }
    }

    /// All but histogram and layers.
    fn header(&self) -> &[Cell64] {
        &self.words()[..offset_of!(Slot, histogram) / size_of::<Cell64>()]
    }

    /// The slot as an array of its cells.
    fn words(&self) -> &[Cell64] {
        // SAFETY: `Slot` is `repr(C)` and made of `Cell64`s alone, directly or in arrays and
        // `Spread`s (which is the same): no padding, one alignment.
        unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(self).cast::<Cell64>(),
                size_of::<Slot>() / size_of::<Cell64>(),
            )
        }
    }
}

/// One slot per brick that was called.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ledger {
    /// The code of the layer that the next entry was made in.
    layer: Cell64,
    /// Folds of the log, and the ticks they took.
    pub(crate) folds: Spread,
    slots: [AtomicPtr<Slot>; MAX_BRICKS],
}

impl Ledger {
    /// The slot of a brick, if it has one.
    pub(crate) fn slot(&self, index: u16) -> Option<&Slot> {
        let slot = self.slots.get(usize::from(index))?.load(Acquire);
        // SAFETY: a pointer that is not null came from `allocate` and is freed with `&mut self`
        // only.
        unsafe { slot.as_ref() }
    }

    /// The slot of a brick that `sites` gave this index, made where there is none.
    pub(crate) fn slot_or_new(&self, index: u16, budget: u64) -> &Slot {
        if let Some(slot) = self.slot(index) {
            return slot;
        }
        let slot = allocate_zeroed::<Slot>();
        // SAFETY: fresh, and a zeroed `Slot` is valid; nobody else knows it yet.
        let slot = unsafe { slot.as_ref() };
        slot.budget.set(budget);
        self.slots[usize::from(index)].store(std::ptr::from_ref(slot).cast_mut(), Release);
        slot
    }

    /// A run of calls, eight of the same meta to begin with: how many were taken.
    #[inline]
    fn calls(&self, ticks: &[u64], metas: &[u16]) -> usize {
        match self.slot(meta::index(metas[0])) {
            Some(slot) if meta::is_plain(metas[0]) => {
                let eights = metas.as_chunks::<8>().0.iter();
                let alike = 8 * eights.take_while(|eight| **eight == [metas[0]; 8]).count();
                slot.calls(&ticks[..alike], self.layer.get())
            }
            _ => 0,
        }
    }

    /// Counts one entry.
    #[inline(always)]
    fn one(&self, amount: u64, meta: u16, detail: &AtomicU64) {
        if meta == meta::OTHER {
            return self.other(amount, detail.load(Relaxed));
        }
        let Some(slot) = self.slot(meta::index(meta)) else {
            return;
        };
        if !meta::is_plain(meta) {
            if meta & meta::CHILDREN != 0 {
                slot.own.add(detail.load(Relaxed).wrapping_neg());
            }
            if meta::is_open(meta) {
                // In the outermost call's time already; its own time is still its own.
                slot.recursive.add(1);
                slot.own.add(amount);
                return;
            }
        }
        slot.put(amount, self.layer.get());
    }

    /// Counts an entry that is no call.
    #[inline]
    fn other(&self, amount: u64, detail: u64) {
        let (kind, index) = meta::detail(detail);
        match (self.slot(index), kind) {
            (Some(slot), kind) if (kind as usize) < meta::SUMMED => {
                slot.sums[kind as usize].add(amount)
            }
            (Some(slot), kind) => self.timed(slot, kind, amount),
            (None, Kind::Layer) => self.layer.set(amount),
            (None, Kind::Fold) => self.folds.add(Run::one(amount)),
            (None, _) => {}
        }
    }

    fn timed(&self, slot: &Slot, kind: Kind, ticks: u64) {
        match kind {
            Kind::Check => slot.checks.add(Run::one(ticks)),
            Kind::Latency => slot.latency.add(Run::one(ticks)),
            Kind::Poll => {
                slot.polls.add(1);
                slot.own.add(ticks);
            }
            Kind::PollChildren => slot.own.add(ticks.wrapping_neg()),
            Kind::AsyncCall => {
                slot.call(ticks, self.layer.get());
                // The polls' already.
                slot.own.add(ticks.wrapping_neg());
            }
            _ => {}
        }
    }

    /// Counts the calls that were put aside.
    pub(crate) fn settle(&self) {
        sites::indices()
            .filter_map(|i| self.slot(i))
            .for_each(Slot::settle);
    }

    /// Copies `from`, without its counts where `counts` is false.
    pub(crate) fn copy(&self, from: &Ledger, counts: bool) {
        self.clear();
        self.layer.set(from.layer.get());
        if counts {
            self.folds.copy(&from.folds);
        }
        for index in sites::indices() {
            if let Some(slot) = from.slot(index) {
                let copy = self.slot_or_new(index, slot.budget.get());
                copy.budget.set(slot.budget.get());
                if counts {
                    copy.copy(slot);
                }
            }
        }
    }
}

impl Sink for Ledger {
    /// The layer stays: it is where the thread is, not what it did.
    fn clear(&self) {
        self.folds.clear();
        sites::indices()
            .filter_map(|i| self.slot(i))
            .for_each(Slot::clear);
    }

    fn skip(&self, entries: Entries<'_>) {
        for i in 0..entries.metas.len() {
            let Entry {
                amount,
                meta,
                detail,
            } = entries.get(i);
            if meta == meta::OTHER && meta::detail(detail).0 == Kind::Layer {
                self.layer.set(amount);
            }
        }
    }

    fn apply(&self, entries: Entries<'_>) {
        // SAFETY: `AtomicU64` has the layout of `u64`, and nobody writes them meanwhile (`Sink`).
        let ticks = unsafe {
            std::slice::from_raw_parts(entries.amounts.as_ptr().cast(), entries.amounts.len())
        };
        // SAFETY: likewise.
        let metas = unsafe {
            std::slice::from_raw_parts(entries.metas.as_ptr().cast(), entries.metas.len())
        };
        let details = entries.details;
        let mut i = 0;
        while i < metas.len() {
            if metas[i] == meta::OTHER {
                self.other(ticks[i], details[i].load(Relaxed));
                i += 1;
                continue;
            }
            if let Some(eight) = metas[i..].first_chunk::<8>()
                && *eight == [metas[i]; 8]
            {
                i += self.calls(&ticks[i..], &metas[i..]);
            }
            // At most eight one by one: then there may be a run again.
            let some = i..(i + 8).min(metas.len());
            i = some.end;
            let words = ticks[some.clone()].iter().zip(&metas[some.clone()]);
            for ((&ticks, &meta), detail) in words.zip(&details[some]) {
                self.one(ticks, meta, detail);
            }
        }
    }
}

/// Zeroed memory for a `T`, never freed. From the system allocator: the program's own may be
/// annotated, and would come back here.
pub(crate) fn allocate_zeroed<T>() -> NonNull<T> {
    const { assert!(size_of::<T>() > 0) };
    let layout = Layout::new::<T>();
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { System.alloc_zeroed(layout) };
    NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout))
}
