//! What a call declares of itself.

use crate::clock;
use crate::slab::meta::{self, Kind};
use crate::slab::{self, Slab};

/// What a call declares of itself. Zero is "nothing", and costs nothing when constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    pub(super) flops: u64,
    pub(super) bytes: u64,
    pub(super) tokens: u64,
    pub(super) elements: u64,
    /// `u64::MAX` where no budget was computed.
    pub(super) budget_ns: u64,
}

impl Work {
    pub(super) const NONE: Work = Work {
        flops: 0,
        bytes: 0,
        tokens: 0,
        elements: 0,
        budget_ns: u64::MAX,
    };

    /// The flag of a call that took longer than the budget it computed.
    #[inline(always)]
    pub(super) fn over(&self, ticks: u64) -> u64 {
        let over = self.budget_ns < u64::MAX && ticks > clock::from_ns(self.budget_ns);
        if over { meta::OVER } else { 0 }
    }

    /// Appends what was declared; true when the log is due.
    #[inline(always)]
    pub(super) fn append(&self, slab: &Slab, call: u64) -> bool {
        let mut due = false;
        for (amount, kind) in [
            (self.flops, Kind::Flops),
            (self.bytes, Kind::Bytes),
            (self.tokens, Kind::Tokens),
            (self.elements, Kind::Elements),
        ] {
            if amount != 0 {
                due |= append(slab, kind, call, amount);
            }
        }
        if self.budget_ns < u64::MAX && !meta::is_recursive(call) {
            due |= append(slab, Kind::Budget, call, clock::from_ns(self.budget_ns));
        }
        due
    }
}

/// Appends an entry of another kind for the brick of `call`; true when the log is due.
#[inline(always)]
pub(super) fn append(slab: &Slab, kind: Kind, call: u64, amount: u64) -> bool {
    slab.append(slab::Entry {
        amount,
        children: 0,
        meta: meta::of(kind, meta::index(call)),
    })
}
