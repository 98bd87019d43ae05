//! The hooks that an annotated function calls (only with `visualization`).
//!
//! [`Site`] → [`Entry`] (what the call declares) → [`Guard`] or [`AsyncCall`] (it runs) →
//! [`Post`] → [`Verdict`] (its results are checked). Between the two clock reads there is
//! nothing but the function itself; around them plain loads and stores into the thread's slab.

mod level;
pub(crate) mod mode;
mod poll;
mod site;
mod verdict;
mod work;

use std::marker::PhantomData;

use self::level::Level;
pub use self::poll::{AsyncCall, Running};
pub(crate) use self::site::Recorded;
pub use self::site::Site;
pub use self::verdict::{Post, Verdict};
use self::work::Work;
use crate::clock;
use crate::contract::Amount;
use crate::scope::LayerScope;
use crate::slab::Slab;
use crate::slab::meta::Kind;

/// A call that is about to start: takes what it declares of itself.
#[derive(Debug)]
pub struct Entry {
    site: &'static Site,
    work: Work,
    layer: Option<u64>,
}

impl Site {
    /// Begins a call: finds the thread's slot, reads no clock yet.
    #[inline(always)]
    pub fn open(&'static self) -> Entry {
        Entry {
            site: self,
            work: Work::NONE,
            layer: None,
        }
    }
}

impl Entry {
    /// Floating-point operations of this call.
    #[inline(always)]
    pub fn flops(mut self, n: impl Amount) -> Self {
        self.work.flops = n.amount();
        self
    }
    /// Bytes that this call must move.
    #[inline(always)]
    pub fn bytes(mut self, n: impl Amount) -> Self {
        self.work.bytes = n.amount();
        self
    }
    /// Tokens of this call.
    #[inline(always)]
    pub fn tokens(mut self, n: impl Amount) -> Self {
        self.work.tokens = n.amount();
        self
    }
    /// Elements of this call.
    #[inline(always)]
    pub fn elements(mut self, n: impl Amount) -> Self {
        self.work.elements = n.amount();
        self
    }
    /// The layer of this call and of all it calls.
    #[inline(always)]
    pub fn layer(mut self, n: impl Amount) -> Self {
        self.layer = Some(n.amount());
        self
    }
    /// This call's own budget, in microseconds (`budget_us = expr`).
    #[inline(always)]
    pub fn budget_us(mut self, us: impl Amount) -> Self {
        // One less than "none".
        self.work.budget_ns = us.thousandths().min(u64::MAX - 1);
        self
    }
    /// A precondition: `text` is its source. A violation follows the policy.
    #[inline(always)]
    pub fn requires(self, holds: bool, text: &'static str) -> Self {
        if !holds {
            verdict::required(&self, text);
        }
        self
    }

    /// Reads the clock: the call starts.
    #[inline(always)]
    pub fn start(self) -> Guard {
        let Entry { site, work, layer } = self;
        let layer_before = layer.map(LayerScope::enter);
        Guard {
            site,
            level: Level::open(site),
            work,
            layer_before,
            here: PhantomData,
        }
    }

    /// The call is a future: its polls are timed.
    #[inline(always)]
    pub fn start_async(self) -> AsyncCall {
        AsyncCall::new(self)
    }
}

/// A running call. Dropped without `exit`, it was a panic.
#[derive(Debug)]
pub struct Guard {
    site: &'static Site,
    level: Level,
    work: Work,
    /// What `LayerScope::enter` gave, if the call has a layer of its own. No field here has a
    /// destructor: that of the guard would not be inlined, and the guard live in memory.
    layer_before: Option<Option<u64>>,
    /// A slab has one writer: a guard stays on its thread.
    here: PhantomData<*const ()>,
}

impl Guard {
    /// Reads the clock and records the call.
    #[inline(always)]
    pub fn exit(self) -> Post {
        let guard = std::mem::ManuallyDrop::new(self);
        let (level, work) = (guard.level, guard.work);
        if let Some(slab) = level.fast {
            level.close_call(slab, clock::ticks(), &work);
        } else {
            // Word by word, so that `work` has no address and can be constant.
            level.close_slow(
                work.flops,
                work.bytes,
                work.tokens,
                work.elements,
                work.budget_ns,
            );
        }
        Post::new(
            guard.site,
            level.index(),
            guard.layer_before.map(LayerScope::resume),
        )
    }

    /// The call ends where this is dropped, as a panic only if the thread is panicking: for a
    /// `#[track_caller]` body, which cannot move into a closure without losing its caller.
    #[inline(always)]
    pub fn exit_on_drop(self) -> ScopedGuard {
        ScopedGuard { guard: Some(self) }
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        let Level {
            index,
            opened,
            above,
            start,
            ..
        } = self.level;
        unwound(
            self.level.slab(),
            index,
            opened,
            above,
            start,
            self.layer_before,
        );
    }
}

/// Records a call that ended by a panic. Word by word, so that no guard has to live in memory.
#[cold]
#[inline(never)]
fn unwound(
    slab: Option<&'static Slab>,
    index: u64,
    opened: u64,
    above: u64,
    start: u64,
    layer_before: Option<Option<u64>>,
) {
    let _layer = layer_before.map(LayerScope::resume);
    let Some(slab) = slab else { return };
    let level = Level {
        fast: Some(slab),
        slow: None,
        index,
        opened,
        above,
        start,
    };
    let now = clock::any_ticks();
    level.close_call(slab, now, &Work::NONE);
    slab.append(Kind::Panic, level.index(), 1);
    slab.settle(now);
}

/// A running call that ends with its scope.
#[derive(Debug)]
pub struct ScopedGuard {
    guard: Option<Guard>,
}

impl Drop for ScopedGuard {
    #[inline(always)]
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.guard.take().map(Guard::exit);
        }
    }
}
