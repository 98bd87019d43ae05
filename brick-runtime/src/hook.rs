//! The hooks that an annotated function calls (only with `visualization`).

use crate::contract::{Amount, Check, Rules};
use crate::registry::BrickInfo;

/// One annotated function: a static in its body.
#[derive(Debug)]
pub struct Site {
    _info: &'static BrickInfo,
}

impl Site {
    /// Of a claim.
    #[must_use]
    pub const fn new(info: &'static BrickInfo) -> Site {
        Site { _info: info }
    }
    /// Begins a call: finds the thread's slot, reads no clock yet.
    #[inline(always)]
    pub fn open(&'static self) -> Entry {
        Entry { site: self }
    }
}

/// A call that is about to start: takes what it declares of itself.
#[derive(Debug)]
pub struct Entry {
    site: &'static Site,
}

impl Entry {
    /// Floating-point operations of this call.
    #[inline(always)]
    pub fn flops(self, _n: impl Amount) -> Self {
        self
    }
    /// Bytes that this call must move.
    #[inline(always)]
    pub fn bytes(self, _n: impl Amount) -> Self {
        self
    }
    /// Tokens of this call.
    #[inline(always)]
    pub fn tokens(self, _n: impl Amount) -> Self {
        self
    }
    /// Elements of this call.
    #[inline(always)]
    pub fn elements(self, _n: impl Amount) -> Self {
        self
    }
    /// The layer of this call and of all it calls.
    #[inline(always)]
    pub fn layer(self, _n: impl Amount) -> Self {
        self
    }
    /// This call's own budget, in microseconds (`budget_us = expr`).
    #[inline(always)]
    pub fn budget_us(self, _us: impl Amount) -> Self {
        self
    }
    /// A precondition: `text` is its source. A violation follows the policy.
    #[inline(always)]
    pub fn requires(self, _holds: bool, _text: &'static str) -> Self {
        self
    }
    /// Reads the clock: the call starts.
    #[inline(always)]
    pub fn start(self) -> Guard {
        Guard { site: self.site }
    }
    /// The call is a future: its polls are timed.
    #[inline(always)]
    pub fn start_async(self) -> AsyncCall {
        AsyncCall { site: self.site }
    }
}

/// A running call. Dropped without `exit`, it was a panic.
#[derive(Debug)]
pub struct Guard {
    site: &'static Site,
}

impl Guard {
    /// Reads the clock and records the call.
    #[inline(always)]
    pub fn exit(self) -> Post {
        Post { _site: self.site }
    }
    /// The call ends where this is dropped, as a panic only if the thread is panicking: for a
    /// `#[track_caller]` body, which cannot move into a closure without losing its caller.
    #[inline(always)]
    pub fn exit_on_drop(self) -> ScopedGuard {
        ScopedGuard { _guard: self }
    }
}

/// A running call that ends with its scope.
#[derive(Debug)]
pub struct ScopedGuard {
    _guard: Guard,
}

/// A running async call.
#[derive(Debug)]
pub struct AsyncCall {
    site: &'static Site,
}

impl AsyncCall {
    /// Polls `body` to its end, each poll timed.
    pub async fn run<F: Future>(self, body: F) -> (F::Output, Post) {
        (body.await, Post { _site: self.site })
    }
}

/// A call whose time is taken; its results may now be checked.
#[derive(Debug)]
pub struct Post {
    _site: &'static Site,
}

impl Post {
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
