//! What a call declares of itself.

use super::level::Level;
use crate::clock;
use crate::scope::LayerScope;
use crate::slab::Slab;
use crate::slab::meta::{self, Kind};
use crate::timeline;

/// What a call declares of itself: nothing, `()`, or some [`Work`].
///
/// A type, not a value that is empty: what is not there, the compiler need not remove again from
/// every annotated function.
pub trait Declares: Copy + std::fmt::Debug {
    /// As [`Work`].
    fn work(self) -> Work;
    /// Begins the call: enters its layer.
    fn begin(&mut self);
    /// Appends what was declared, for a call that took `ticks`.
    fn append(&self, slab: &Slab, index: u16, opened: u16, ticks: u64);
    /// Closes a level that was opened on the slow path.
    fn close_slow(self, level: Level);
    /// The layer of its own that the call began, to be left where this is dropped.
    fn scope(&self) -> Option<LayerScope>;
}

impl Declares for () {
    #[inline(always)]
    fn work(self) -> Work {
        Work::NONE
    }
    #[inline(always)]
    fn begin(&mut self) {}
    #[inline(always)]
    fn append(&self, _: &Slab, _: u16, _: u16, _: u64) {}
    #[inline(always)]
    fn close_slow(self, level: Level) {
        level.close_slow();
    }
    #[inline(always)]
    fn scope(&self) -> Option<LayerScope> {
        None
    }
}

/// What a call declares of itself. Zero is "nothing", and costs nothing when constant.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    pub(super) flops: u64,
    pub(super) bytes: u64,
    pub(super) tokens: u64,
    pub(super) elements: u64,
    /// `u64::MAX` where no budget was computed.
    pub(super) budget_ns: u64,
    pub(super) layer: Option<u64>,
    /// What `LayerScope::enter` gave, once the call's layer is entered. (No field here has a
    /// destructor: a guard with one would not be inlined, and live in memory.)
    pub(super) before: Option<Option<u64>>,
}

impl Work {
    pub(super) const NONE: Work = Work {
        flops: 0,
        bytes: 0,
        tokens: 0,
        elements: 0,
        budget_ns: u64::MAX,
        layer: None,
        before: None,
    };

    /// What a timeline shows of it.
    pub(super) fn declared(&self) -> timeline::Work {
        let some = |amount: u64| (amount != 0).then_some(amount);
        timeline::Work {
            flops: some(self.flops),
            bytes: some(self.bytes),
            tokens: some(self.tokens),
            elements: some(self.elements),
        }
    }
}

impl Declares for Work {
    #[inline(always)]
    fn work(self) -> Work {
        self
    }

    #[inline(always)]
    fn begin(&mut self) {
        self.before = self.layer.map(LayerScope::enter);
    }

    #[inline(always)]
    fn append(&self, slab: &Slab, index: u16, opened: u16, ticks: u64) {
        let amount = |amount: u64, kind: Kind| {
            if amount != 0 {
                slab.append(kind, index, amount);
            }
        };
        amount(self.flops, Kind::Flops);
        amount(self.bytes, Kind::Bytes);
        amount(self.tokens, Kind::Tokens);
        amount(self.elements, Kind::Elements);
        // A recursive call is in no time, and so in no budget.
        if self.budget_ns < u64::MAX && meta::is_plain(opened) {
            let budget = clock::from_ns(self.budget_ns);
            slab.append(Kind::Budget, index, budget);
            if ticks > budget {
                slab.append(Kind::Over, index, 1);
            }
        }
    }

    #[inline(always)]
    fn close_slow(self, level: Level) {
        level.close_slow_with(&self);
    }

    #[inline(always)]
    fn scope(&self) -> Option<LayerScope> {
        self.before.map(LayerScope::resume)
    }
}
