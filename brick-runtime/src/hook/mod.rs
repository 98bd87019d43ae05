//! The hooks that an annotated function calls (only with `visualization`).
//!
//! [`Site`] → [`Entry`] (what the call declares) → [`Guard`] or [`AsyncCall`] (it runs) →
//! [`Post`] → [`Verdict`] (its results are checked). Between the two clock reads there is
//! nothing but the function itself; around them plain loads and stores into the thread's slab.

mod level;
pub(crate) mod mode;
pub(crate) mod pause;
mod poll;
mod site;
mod verdict;
mod work;

use std::marker::PhantomData;

use self::level::{ESCALATED, Level};
pub use self::poll::{AsyncCall, Running};
pub(crate) use self::site::Recorded;
pub use self::site::Site;
pub use self::verdict::{Post, Verdict};
use self::work::{Declares, Work};
use crate::clock;
use crate::contract::Amount;
use crate::slab::Slab;
use crate::slab::meta::Kind;
use crate::tracer::armed;

/// A call that is about to start: takes what it declares of itself.
#[derive(Debug)]
pub struct Entry<W = ()> {
    site: &'static Site,
    declared: W,
}

impl Site {
    /// Begins a call: reads no clock yet.
    #[inline(always)]
    pub fn open(&'static self) -> Entry {
        Entry {
            site: self,
            declared: (),
        }
    }
}

impl<W: Declares> Entry<W> {
    #[inline(always)]
    fn declare(self, add: impl FnOnce(&mut Work)) -> Entry<Work> {
        let mut declared = self.declared.work();
        add(&mut declared);
        Entry {
            site: self.site,
            declared,
        }
    }
    /// Floating-point operations of this call.
    #[inline(always)]
    pub fn flops(self, n: impl Amount) -> Entry<Work> {
        self.declare(|work| work.flops = n.amount())
    }
    /// Bytes that this call must move.
    #[inline(always)]
    pub fn bytes(self, n: impl Amount) -> Entry<Work> {
        self.declare(|work| work.bytes = n.amount())
    }
    /// Tokens of this call.
    #[inline(always)]
    pub fn tokens(self, n: impl Amount) -> Entry<Work> {
        self.declare(|work| work.tokens = n.amount())
    }
    /// Elements of this call.
    #[inline(always)]
    pub fn elements(self, n: impl Amount) -> Entry<Work> {
        self.declare(|work| work.elements = n.amount())
    }
    /// The layer of this call and of all it calls.
    #[inline(always)]
    pub fn layer(self, n: impl Amount) -> Entry<Work> {
        self.declare(|work| work.layer = Some(n.amount()))
    }
    /// This call's own budget, in microseconds (`budget_us = expr`).
    #[inline(always)]
    pub fn budget_us(self, us: impl Amount) -> Entry<Work> {
        // One less than "none".
        self.declare(|work| work.budget_ns = us.thousandths().min(u64::MAX - 1))
    }
    /// A precondition: `text` is its source. A violation follows the policy.
    #[inline(always)]
    pub fn requires(self, holds: bool, text: &'static str) -> Self {
        if !holds {
            verdict::required(self.site, self.declared.work().layer, text);
        }
        self
    }

    /// Reads the clock: the call starts.
    #[inline(always)]
    pub fn start(self) -> Guard<W> {
        let Entry { site, mut declared } = self;
        declared.begin();
        Guard {
            site,
            level: Level::open(site),
            declared,
            here: PhantomData,
        }
    }

    /// The call is a future: its polls are timed.
    #[inline(always)]
    pub fn start_async(self) -> AsyncCall {
        AsyncCall::new(self.site, self.declared.work())
    }
}

/// A running call. Dropped without `exit`, it was a panic.
#[derive(Debug)]
pub struct Guard<W: Declares = ()> {
    site: &'static Site,
    level: Level,
    declared: W,
    /// A slab has one writer: a guard stays on its thread.
    here: PhantomData<*const ()>,
}

impl<W: Declares> Guard<W> {
    /// Reads the clock and records the call; its results may then be checked.
    #[inline(always)]
    pub fn exit(self) -> Post {
        let (site, level, declared) = (self.site, self.level, self.declared);
        let end = self.close();
        Post::new(site, level.index(), level.fast.zip(end), declared.scope())
    }

    /// Reads the clock and records the call, whose results nothing looks at.
    #[inline(always)]
    pub fn end(self) {
        let declared = self.declared;
        self.close();
        drop(declared.scope());
    }

    /// On the fast path, the tick at which what comes next begins.
    #[inline(always)]
    fn close(self) -> Option<u64> {
        let (level, declared) = (self.level, self.declared);
        std::mem::forget(self);
        if let Some(slab) = level.fast {
            Some(level.close_call(slab, clock::ticks(), &declared))
        } else {
            declared.close_slow(level);
            None
        }
    }

    /// The call ends where this is dropped, as a panic only if the thread is panicking: for a
    /// `#[track_caller]` body, which cannot move into a closure without losing its caller.
    #[inline(always)]
    pub fn exit_on_drop(self) -> ScopedGuard<W> {
        ScopedGuard { guard: Some(self) }
    }
}

impl<W: Declares> Drop for Guard<W> {
    #[inline(always)]
    fn drop(&mut self) {
        let _layer = self.declared.scope();
        let Level {
            index,
            opened,
            above,
            start,
            ..
        } = self.level;
        unwound(self.level.slab(), index, opened, above, start);
    }
}

/// Records a call that ended by a panic. Word by word, so that no guard has to live in memory.
#[cold]
#[inline(never)]
fn unwound(slab: Option<&'static Slab>, index: u64, opened: u64, above: u64, start: u64) {
    let Some(slab) = slab else {
        if start == ESCALATED {
            armed::end(true);
        }
        return;
    };
    let level = Level {
        fast: Some(slab),
        slow: None,
        index,
        opened,
        above,
        start,
    };
    let now = clock::any_ticks();
    level.close_call(slab, now, &());
    level.end_event(now, true, &Work::NONE);
    slab.append(Kind::Panic, level.index(), 1);
    slab.settle(now);
}

/// A running call that ends with its scope.
#[derive(Debug)]
pub struct ScopedGuard<W: Declares = ()> {
    guard: Option<Guard<W>>,
}

impl<W: Declares> Drop for ScopedGuard<W> {
    #[inline(always)]
    fn drop(&mut self) {
        if !std::thread::panicking()
            && let Some(guard) = self.guard.take()
        {
            guard.end();
        }
    }
}
