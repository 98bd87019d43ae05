//! The ledger: what a log is folded into, one slot per brick.
//!
//! A ledger in a slab is written by its owner alone, so every update is a relaxed load and
//! store, plain `mov`s; the log's epoch tells readers when their copy was disturbed. A reader
//! folds pending entries into a ledger of its own with the same code.
//!
//! Folding is most of what a call costs after its two clock reads. A kernel is mostly called
//! many times in a row, so calls of one brick are taken as a run: their statistics are summed in
//! registers, two or four ticks at a time, and added to the slot once.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::log::{Entries, Entry, Sink};
use super::meta::{self, Kind};
use crate::histogram::{BUCKETS, LIMIT, bucket, bucket_of_float};

/// Bricks that can be told apart in one process; calls of any beyond are counted as dropped.
pub(crate) const MAX_BRICKS: usize = 2048;
/// Layers that are told apart; the last one also takes all above it.
pub(crate) const MAX_LAYERS: usize = 128;

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

/// Some durations taken together; at least one.
#[derive(Clone, Copy, Debug)]
struct Run {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
    /// Sum of squares. As a float: exact sums need a 128-bit multiply each, and the error of a
    /// sum of squares (1e-16) is far below what a deviation is read for.
    squares: f64,
}

impl Run {
    fn one(ticks: u64) -> Run {
        let float = ticks as f64;
        Run {
            count: 1,
            total: ticks,
            min: ticks,
            max: ticks,
            squares: float * float,
        }
    }
}

/// The statistics of a run, in registers: four lanes, so that they are summed two at a time and
/// no addition waits for the one before.
#[derive(Clone, Copy, Debug)]
struct Lanes {
    total: [f64; 4],
    squares: [f64; 4],
    min: [f64; 4],
    max: [f64; 4],
}

impl Lanes {
    const EMPTY: Lanes = Lanes {
        total: [0.0; 4],
        squares: [0.0; 4],
        min: [f64::INFINITY; 4],
        max: [0.0; 4],
    };

    /// Takes in four ticks, all below [`LIMIT`].
    #[inline(always)]
    fn add(&mut self, ticks: [f64; 4]) {
        for (i, t) in ticks.into_iter().enumerate() {
            // Whole numbers below 2⁵³: the sum is exact.
            self.total[i] += t;
            self.squares[i] += t * t;
            self.min[i] = if t < self.min[i] { t } else { self.min[i] };
            self.max[i] = if t > self.max[i] { t } else { self.max[i] };
        }
    }

    fn run(self, count: u64) -> Run {
        Run {
            count,
            total: self.total.iter().sum::<f64>() as u64,
            min: self.min.into_iter().fold(f64::INFINITY, f64::min) as u64,
            max: self.max.into_iter().fold(0.0, f64::max) as u64,
            squares: self.squares.iter().sum(),
        }
    }
}

/// `ticks as f64` for ticks below 2⁵², in two instructions that take two at a time: SSE2 has no
/// conversion from 64-bit integers.
#[inline(always)]
fn float_of(ticks: u64) -> f64 {
    const TWO_52: u64 = 0x4330_0000_0000_0000;
    f64::from_bits(ticks | TWO_52) - f64::from_bits(TWO_52)
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
    pub(crate) over_budget: Cell64,
    pub(crate) recursive: Cell64,
    pub(crate) panics: Cell64,
    pub(crate) polls: Cell64,
    pub(crate) cancelled: Cell64,
    pub(crate) flops: Cell64,
    pub(crate) bytes: Cell64,
    pub(crate) tokens: Cell64,
    pub(crate) elements: Cell64,
    pub(crate) budgets: Cell64,
    pub(crate) checks: Spread,
    pub(crate) latency: Spread,
    /// Outermost calls by duration; their number is the sum of the buckets.
    pub(crate) histogram: [Cell64; BUCKETS],
    pub(crate) layers: [Spread; MAX_LAYERS],
}

impl Slot {
    /// The plain calls of this brick that `entries` begins with, as far as they can be taken
    /// four at a time: how many that is.
    #[inline]
    fn run(&self, entries: Entries<'_>, layer: u64) -> usize {
        let (mut lanes, mut own, mut n) = (Lanes::EMPTY, 0u64, 0);
        let fours = entries.amounts.as_chunks::<4>().0.iter();
        let fours = fours.zip(entries.children.as_chunks::<4>().0);
        let mut meta = None;
        for ((ticks, children), metas) in fours.zip(entries.metas.as_chunks::<4>().0) {
            // Word by word, as they were written: a wider load would have to wait until the
            // stores have left the store buffer.
            let (ticks, metas) = (ticks.each_ref().map(get), metas.each_ref().map(get));
            let first = *meta.get_or_insert(metas[0]);
            let alike = metas.iter().fold(0, |different, m| different | (m ^ first)) == 0;
            if !alike || ticks.iter().fold(0, |all, t| all | t) >= LIMIT {
                break;
            }
            let sum = |sum: u64, word: u64| sum.wrapping_add(word);
            own = own.wrapping_add(ticks.into_iter().fold(0, sum));
            own = own.wrapping_sub(children.iter().map(get).fold(0, sum));
            let floats = ticks.map(float_of);
            lanes.add(floats);
            for float in floats {
                self.histogram
                    .get(bucket_of_float(float))
                    .unwrap_or(&self.histogram[0])
                    .add(1);
            }
            n += 4;
        }
        if n > 0 {
            let run = lanes.run(n as u64);
            self.own.add(own);
            if run.max > self.budget.get() {
                let over = entries.amounts[..n]
                    .iter()
                    .filter(|t| get(t) > self.budget.get());
                self.over_budget.add(over.count() as u64);
            }
            self.add(run, layer);
        }
        n
    }

    /// One outermost call that ended.
    #[inline]
    fn call(&self, ticks: u64, layer: u64) {
        // Below zero, if the processors' counters disagree and the thread moved.
        let ticks = if (ticks as i64) < 0 { 0 } else { ticks };
        self.histogram[bucket(ticks)].add(1);
        self.over_budget.add((ticks > self.budget.get()).into());
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
            self.layers[(layer as usize - 1).min(MAX_LAYERS - 1)].add(run);
        }
    }

    /// Copies every field; the histogram only where it can hold something.
    fn copy(&self, from: &Slot) {
        let header = offset_of!(Slot, histogram) / size_of::<Cell64>();
        let layers = offset_of!(Slot, layers) / size_of::<Cell64>();
        let (to, words) = (self.words(), from.words());
        let copy = |range: Range<usize>| {
            to[range.clone()]
                .iter()
                .zip(&words[range])
                .for_each(|(to, from)| to.set(from.get()))
        };
        copy(0..header);
        copy(layers..words.len());
        self.histogram.iter().for_each(|b| b.set(0));
        // A torn copy may see any minimum and maximum: `bucket` keeps them in bounds.
        for b in bucket(!self.min_inverted.get())..=bucket(self.max.get()) {
            self.histogram[b].set(from.histogram[b].get());
        }
    }

    /// Forgets everything but the budget.
    fn clear(&self) {
        let budget = self.budget.get();
        self.words().iter().for_each(|w| w.set(0));
        self.budget.set(budget);
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

    /// Counts an entry that is more than a plain call.
    fn special(
        &self,
        Entry {
            amount,
            children,
            meta,
        }: Entry,
    ) {
        match Kind::of(meta) {
            Kind::Layer => return self.layer.set(amount),
            Kind::Fold => return self.folds.add(Run::one(amount)),
            _ => {}
        }
        let Some(slot) = self.slot(meta::index(meta)) else {
            return;
        };
        if meta & meta::PANIC != 0 {
            slot.panics.add(1);
        }
        let own = amount.wrapping_sub(children);
        match Kind::of(meta) {
            Kind::Call => {
                slot.own.add(own);
                self.outermost(slot, amount, meta);
            }
            Kind::AsyncCall => self.outermost(slot, amount, meta),
            Kind::Poll => {
                slot.polls.add(1);
                slot.own.add(own);
            }
            Kind::Flops => slot.flops.add(amount),
            Kind::Bytes => slot.bytes.add(amount),
            Kind::Tokens => slot.tokens.add(amount),
            Kind::Elements => slot.elements.add(amount),
            Kind::Budget => slot.budgets.add(amount),
            Kind::Check => slot.checks.add(Run::one(amount)),
            Kind::Latency => slot.latency.add(Run::one(amount)),
            Kind::Cancelled => slot.cancelled.add(1),
            Kind::Fold | Kind::Layer => {}
        }
    }

    /// A call that may be recursive: its time is in the outermost call's already.
    fn outermost(&self, slot: &Slot, ticks: u64, meta: u64) {
        if meta::is_recursive(meta) {
            slot.recursive.add(1);
            return;
        }
        slot.call(ticks, self.layer.get());
        if meta & meta::OVER != 0 {
            slot.over_budget.add(1);
        }
    }

    /// Copies `from`, without its counts where `counts` is false.
    pub(crate) fn copy(&self, from: &Ledger, counts: bool) {
        self.clear();
        self.layer.set(from.layer.get());
        if counts {
            self.folds.copy(&from.folds);
        }
        for index in 0..MAX_BRICKS as u16 {
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
        (0..MAX_BRICKS as u16)
            .filter_map(|i| self.slot(i))
            .for_each(Slot::clear);
    }

    fn skip(&self, entries: Entries<'_>) {
        for (amount, meta) in entries.amounts.iter().zip(entries.metas) {
            if Kind::of(meta.load(Relaxed)) == Kind::Layer {
                self.layer.set(amount.load(Relaxed));
            }
        }
    }

    fn apply(&self, entries: Entries<'_>) {
        let mut i = 0;
        while i < entries.metas.len() {
            let Entry {
                amount,
                children,
                meta,
            } = entries.get(i);
            let slot = if meta::is_plain(meta) {
                self.slot(meta::index(meta))
            } else {
                None
            };
            let Some(slot) = slot else {
                self.special(Entry {
                    amount,
                    children,
                    meta,
                });
                i += 1;
                continue;
            };
            let layer = self.layer.get();
            i += match slot.run(entries.from(i), layer) {
                0 => {
                    slot.own.add(amount.wrapping_sub(children));
                    slot.call(amount, layer);
                    1
                }
                n => n,
            };
        }
    }
}

/// A word of the log.
#[inline(always)]
fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
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
