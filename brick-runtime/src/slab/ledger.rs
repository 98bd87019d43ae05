//! The ledger: what a log is folded into, one slot per brick.
//!
//! A ledger in a slab is written by its owner alone, so every update is a relaxed load and
//! store, plain `mov`s; the log's epoch tells readers when their copy was disturbed. A reader
//! folds pending entries into a ledger of its own with the same code.

use std::alloc::{GlobalAlloc, Layout, System, handle_alloc_error};
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use super::meta::{self, Kind};
use crate::histogram::{BUCKETS, bucket};

/// Bricks that can be told apart in one process; calls of any beyond are counted as dropped.
pub(crate) const MAX_BRICKS: usize = 2048;
/// Layers that are told apart; the last one also takes all above it.
pub(crate) const MAX_LAYERS: usize = 128;
/// Nesting depths below which a call's children are subtracted from its self time.
pub(crate) const MAX_DEPTH: usize = 256;

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
    /// Wraps: sums of ticks have centuries, and [`Slot::own`] is a difference.
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
    #[inline(always)]
    fn add(&self, ticks: u64) {
        self.count.add(1);
        self.total.add(ticks);
        self.min_inverted.raise(!ticks);
        self.max.raise(ticks);
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
    /// Sum of squared ticks, exact in 128 bits.
    pub(crate) squares: [Cell64; 2],
    /// Self time is `total + own`, wrapping: minus children's time, plus recursive calls' time, …
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
    /// An outermost call that ended.
    #[inline(always)]
    fn call(&self, ticks: u64, meta: u64) {
        self.total.add(ticks);
        self.min_inverted.raise(!ticks);
        self.max.raise(ticks);
        let square = u128::from(ticks) * u128::from(ticks);
        let [low, high] = &self.squares;
        let (sum, carry) = low.get().overflowing_add(square as u64);
        low.set(sum);
        high.set(
            high.get()
                .wrapping_add((square >> 64) as u64)
                .wrapping_add(carry.into()),
        );
        self.histogram[bucket(ticks)].add(1);
        if ticks > self.budget.get() {
            self.over_budget.add(1);
        }
        let layer = meta::layer_code(meta);
        if layer != 0 {
            self.layers[(layer - 1).min(MAX_LAYERS - 1)].add(ticks);
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

/// One slot per brick that was called, and the time of the children of the calls still open.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ledger {
    /// Ticks of ended calls at each depth that their parent, still open, has yet to subtract.
    children: [Cell64; MAX_DEPTH + 1],
    /// Calls nested deeper than [`MAX_DEPTH`]: their time is in the self time of the call
    /// at that depth.
    pub(crate) deep: Cell64,
    /// Folds of the log, and the ticks they took.
    pub(crate) folds: Spread,
    slots: [AtomicPtr<Slot>; MAX_BRICKS],
}

impl Ledger {
    /// The slot of a brick, if it has one.
    pub(crate) fn slot(&self, index: usize) -> Option<&Slot> {
        let slot = self.slots[index % MAX_BRICKS].load(Acquire);
        // SAFETY: a pointer that is not null came from `allocate` and is freed with `&mut self`
        // only.
        unsafe { slot.as_ref() }
    }

    /// The slot of a brick, made where there is none.
    pub(crate) fn slot_or_new(&self, index: usize, budget: u64) -> &Slot {
        if let Some(slot) = self.slot(index) {
            return slot;
        }
        let slot = allocate_zeroed::<Slot>();
        // SAFETY: fresh, and a zeroed `Slot` is valid; nobody else knows it yet.
        let slot = unsafe { slot.as_ref() };
        slot.budget.set(budget);
        self.slots[index % MAX_BRICKS].store(std::ptr::from_ref(slot).cast_mut(), Release);
        slot
    }

    /// Counts one entry.
    #[inline(always)]
    pub(crate) fn apply(&self, amount: u64, meta: u64) {
        let Some(slot) = self.slot(meta::index(meta)) else {
            return;
        };
        if meta & meta::SPECIAL == 0 {
            slot.call(amount, meta);
            slot.own.add(self.nest(amount, meta).wrapping_neg());
        } else {
            self.apply_special(slot, amount, meta);
        }
    }

    #[inline(never)]
    fn apply_special(&self, slot: &Slot, amount: u64, meta: u64) {
        if meta & meta::PANIC != 0 {
            slot.panics.add(1);
        }
        match Kind::of(meta) {
            Kind::Call => {
                let children = self.nest(amount, meta);
                if meta & meta::RECURSIVE == 0 {
                    slot.call(amount, meta);
                    slot.own.add(children.wrapping_neg());
                } else {
                    // In the outermost call's total already; its own time is still its own.
                    slot.recursive.add(1);
                    slot.own.add(amount.wrapping_sub(children));
                }
                if meta & meta::OVER != 0 {
                    slot.over_budget.add(1);
                }
            }
            Kind::Flops => slot.flops.add(amount),
            Kind::Bytes => slot.bytes.add(amount),
            Kind::Tokens => slot.tokens.add(amount),
            Kind::Elements => slot.elements.add(amount),
            Kind::Budget => slot.budgets.add(amount),
            Kind::Check => {
                slot.checks.add(amount);
                self.nest(amount, meta);
            }
            Kind::Poll => {
                slot.polls.add(1);
                let children = self.nest(amount, meta);
                slot.own.add(amount.wrapping_sub(children));
            }
            // The polls have nested, and are in `own`: taken out again where they enter `total`.
            Kind::AsyncCall if meta & meta::RECURSIVE == 0 => {
                slot.call(amount, meta);
                slot.own.add(amount.wrapping_neg());
                if meta & meta::OVER != 0 {
                    slot.over_budget.add(1);
                }
            }
            Kind::AsyncCall => slot.recursive.add(1),
            Kind::Latency => slot.latency.add(amount),
            Kind::Cancelled => slot.cancelled.add(1),
            Kind::Fold => {
                self.folds.add(amount);
                self.nest(amount, meta);
            }
        }
    }

    /// Skips one entry that lies before a reset: its time is still its open parent's child time.
    pub(crate) fn skip(&self, amount: u64, meta: u64) {
        if matches!(
            Kind::of(meta),
            Kind::Call | Kind::Poll | Kind::Check | Kind::Fold
        ) {
            self.nest(amount, meta);
        }
    }

    /// Adds `ticks` to the time of the parent's children; returns that of its own.
    #[inline(always)]
    fn nest(&self, ticks: u64, meta: u64) -> u64 {
        let depth = meta::depth(meta);
        if depth >= MAX_DEPTH {
            return self.nest_deep(ticks, meta);
        }
        if depth > 0 {
            self.children[depth].add(ticks);
        }
        let own = &self.children[depth + 1];
        let children = own.get();
        if children != 0 {
            own.set(0);
        }
        children
    }

    /// At the last depth a call's children are not told apart; below it, its time is in that
    /// call's self time, and so it has none of its own.
    #[cold]
    fn nest_deep(&self, ticks: u64, meta: u64) -> u64 {
        if meta::depth(meta) == MAX_DEPTH {
            self.children[MAX_DEPTH].add(ticks);
            return 0;
        }
        if Kind::of(meta) != Kind::Fold {
            self.deep.add(1);
        }
        ticks
    }

    /// Forgets all counts. The children of open calls stay: those calls end later.
    pub(crate) fn clear(&self) {
        self.deep.set(0);
        self.folds.clear();
        (0..MAX_BRICKS)
            .filter_map(|i| self.slot(i))
            .for_each(Slot::clear);
    }

    /// Forgets open calls: the thread that had them is gone.
    pub(crate) fn clear_children(&self) {
        self.children.iter().for_each(|c| c.set(0));
    }

    /// Copies `from`, without its slots' counts where `counts` is false.
    pub(crate) fn copy(&self, from: &Ledger, counts: bool) {
        for (to, from) in self.children.iter().zip(&from.children) {
            to.set(from.get());
        }
        self.clear();
        if counts {
            self.deep.set(from.deep.get());
            self.folds.copy(&from.folds);
        }
        for index in 0..MAX_BRICKS {
            if let Some(slot) = from.slot(index) {
                let copy = self.slot_or_new(index, slot.budget.get());
                if counts {
                    copy.copy(slot);
                } else {
                    copy.budget.set(slot.budget.get());
                }
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
