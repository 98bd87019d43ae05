//! After the call: checking what it returned.

use super::{Entry, Site};
use crate::contract::{Check, Rules};

/// A precondition that does not hold.
#[cold]
#[inline(never)]
pub(super) fn required(_entry: &Entry, _text: &'static str) {}

/// A call whose time is taken; its results may now be checked.
#[derive(Debug)]
pub struct Post {
    _site: &'static Site,
    _meta: u64,
}

impl Post {
    #[inline(always)]
    pub(super) fn new(site: &'static Site, meta: u64) -> Post {
        Post {
            _site: site,
            _meta: meta,
        }
    }

    /// `None` where this call is not sampled or contracts are off.
    #[inline(always)]
    pub fn checks(self) -> Option<Verdict> {
        Some(Verdict {})
    }
}

/// The checks of one call, in order; the first failure is kept.
#[derive(Debug)]
pub struct Verdict {}

impl Verdict {
    /// Checks `value` (a parameter's name, or `"return"`).
    #[inline]
    pub fn tensor<T: Check + ?Sized>(&mut self, _name: &'static str, _value: &T, _rules: &Rules) {}
    /// A postcondition.
    #[inline]
    pub fn ensures(&mut self, _holds: bool, _text: &'static str) {}
    /// Applies the policy: may panic with the violation.
    #[inline]
    pub fn finish(self) {}
}
