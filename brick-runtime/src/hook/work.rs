//! What a call declares of itself.

use crate::clock;
use crate::slab::Slab;
use crate::slab::meta::{self, Kind};

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

    /// Appends what was declared by a call that took `ticks`.
    #[inline(always)]
    pub(super) fn append(&self, slab: &Slab, index: u16, opened: u16, ticks: u64) {
        for (amount, kind) in [
            (self.flops, Kind::Flops),
            (self.bytes, Kind::Bytes),
            (self.tokens, Kind::Tokens),
            (self.elements, Kind::Elements),
        ] {
            if amount != 0 {
                slab.append(kind, index, amount);
            }
        }
        // A recursive call is in no time, and so in no budget.
        if self.budget_ns < u64::MAX && meta::is_plain(opened) {
            let budget = clock::from_ns(self.budget_ns);
            slab.append(Kind::Budget, index, budget);
            if ticks > budget {
                slab.append(Kind::Over, index, 1);
            }
        }
    }
}
