//! The reader's side: all slabs, folded together, without making anyone wait.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::ledger::{Ledger, MAX_LAYERS, Slot, Spread, allocate_zeroed};
use super::log::{Entries, Entry, Sink};
use super::meta::Kind;
use super::{Slab, pool, sites};
use crate::histogram::{BUCKETS, Histogram};
use crate::tally::{LayerTally, Span, Tally};

/// One reader at a time: the log's `hold` and reset mark, and the scratch ledger, have one user.
static READER: Mutex<()> = Mutex::new(());

/// What all threads counted, taken together.
#[derive(Debug)]
pub(crate) struct Totals {
    /// Per index of `sites`, for the bricks that were called.
    pub(crate) bricks: Vec<(u16, Tally)>,
    /// Folds of the logs: how many, and the ticks they took.
    pub(crate) folds: Span,
    /// Calls that could not be recorded.
    pub(crate) dropped: u64,
}

/// Everything counted since the last reset, pending entries included.
pub(crate) fn totals() -> Totals {
    let _reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    let mut sums: BTreeMap<u16, Sum> = BTreeMap::new();
    let mut folds = Span::default();
    for slab in pool::all() {
        let ledger = read(slab);
        folds.add(&span(&ledger.folds));
        for index in sites::indices() {
            if let Some(slot) = ledger.slot(index) {
                sums.entry(index).or_default().add(slot);
            }
        }
    }
    let bricks = sums
        .into_iter()
        .filter_map(|(i, sum)| Some((i, sum.finish()?)))
        .collect();
    Totals {
        bricks,
        folds,
        dropped: pool::dropped().load(Relaxed),
    }
}

/// Forgets everything counted so far, on every thread.
pub(crate) fn reset() {
    let _reader = READER.lock().unwrap_or_else(PoisonError::into_inner);
    for slab in pool::all() {
        slab.log.ask_reset(std::thread::yield_now);
    }
    pool::dropped().store(0, Relaxed);
}

/// One slab as of now: its ledger with the pending entries folded in. The result is good until
/// the next call; the caller holds `READER`.
fn read(slab: &Slab) -> &'static Ledger {
    let scratch = scratch();
    let mut pending: Vec<Entry> = Vec::with_capacity(super::CAPACITY);
    let from = slab.log.read(
        |view| {
            scratch.copy(&slab.ledger, view.ledger);
            pending.clear();
            pending.extend((0..view.len).map(|i| slab.log.entry(i)));
            view.from
        },
        std::thread::yield_now,
    );
    let amounts: Vec<_> = pending.iter().map(|e| AtomicU64::new(e.amount)).collect();
    let metas: Vec<_> = pending.iter().map(|e| AtomicU16::new(e.meta)).collect();
    let details: Vec<_> = pending.iter().map(|e| AtomicU64::new(e.detail)).collect();
    let entries = |range: Range<usize>| Entries {
        amounts: &amounts[range.clone()],
        metas: &metas[range.clone()],
        details: &details[range],
    };
    scratch.skip(entries(0..from));
    scratch.apply(entries(from..pending.len()));
    scratch.settle();
    scratch
}

/// The reader's own ledger: made once, used under `READER`.
fn scratch() -> &'static Ledger {
    static SCRATCH: OnceLock<&'static Ledger> = OnceLock::new();
    // SAFETY: a zeroed `Ledger` is valid: null pointers and integers.
    SCRATCH.get_or_init(|| unsafe { allocate_zeroed::<Ledger>().as_ref() })
}

fn span(spread: &Spread) -> Span {
    Span::new(
        spread.count.get(),
        spread.total.get(),
        !spread.min_inverted.get(),
        spread.max.get(),
    )
}

/// One brick's slots over all slabs.
struct Sum {
    tally: Tally,
    histogram: Box<[u64; BUCKETS]>,
    layers: Vec<Span>,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum {
            tally: Tally::default(),
            histogram: Box::new([0; BUCKETS]),
            layers: vec![Span::default(); MAX_LAYERS],
        }
    }
}

impl Sum {
    fn add(&mut self, slot: &Slot) {
        let mut timed = 0;
        for histogram in &slot.histogram {
            for (sum, bucket) in self.histogram.iter_mut().zip(histogram) {
                *sum += bucket.get();
                timed += bucket.get();
            }
        }
        for (sum, layer) in self.layers.iter_mut().zip(&slot.layers) {
            sum.add(&span(layer));
        }
        let t = &mut self.tally;
        t.time.add(&Span::new(
            timed,
            slot.total.get(),
            !slot.min_inverted.get(),
            slot.max.get(),
        ));
        t.squares += f64::from_bits(slot.squares.get());
        t.own = t.own.wrapping_add(slot.own.get());
        t.recursive += slot.recursive.get() + slot.sum(Kind::InnerAsyncCall);
        t.over_budget += slot.sum(Kind::Over);
        t.panics += slot.sum(Kind::Panic);
        t.polls += slot.polls.get();
        t.cancelled += slot.sum(Kind::Cancelled);
        t.flops += slot.sum(Kind::Flops);
        t.bytes += slot.sum(Kind::Bytes);
        t.tokens += slot.sum(Kind::Tokens);
        t.elements += slot.sum(Kind::Elements);
        t.budgets += slot.sum(Kind::Budget);
        t.shared += slot.sum(Kind::Shared);
        t.waited += slot.sum(Kind::Waited);
        t.checks.add(&span(&slot.checks));
        t.latency.add(&span(&slot.latency));
    }

    /// `None` where nothing was recorded: the slot is there, but was reset since.
    fn finish(self) -> Option<Tally> {
        let mut tally = self.tally;
        if tally == Tally::default() {
            return None;
        }
        tally.histogram = Histogram::new(self.histogram.into_iter().enumerate());
        tally.layers = self
            .layers
            .into_iter()
            .enumerate()
            .filter(|(_, span)| span.count > 0)
            .map(|(layer, span)| LayerTally {
                layer: layer as u32,
                and_above: layer == MAX_LAYERS - 1,
                span,
            })
            .collect();
        Some(tally)
    }
}
