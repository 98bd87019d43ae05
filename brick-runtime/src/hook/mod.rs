//! The hooks that an annotated function calls (only with `visualization`).
//!
//! [`Site`] → [`Entry`] (what the call declares) → [`Guard`] or [`AsyncCall`] (it runs) →
//! [`Post`] → [`Verdict`] (its results are checked). Between the two clock reads there is
//! nothing but the function itself; around them plain loads and stores into the thread's slab.

pub(crate) mod mode;
mod poll;
mod verdict;

use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use self::poll::{AsyncCall, Running};
pub use self::verdict::{Post, Verdict};
use crate::claim;
use crate::clock;
use crate::contract::Amount;
use crate::registry::BrickInfo;
use crate::slab::meta::{self, Kind};
use crate::slab::{self, Slab, sites, state};

/// One annotated function: a static in its body.
#[derive(Debug)]
pub struct Site {
    index: AtomicU32,
    /// Check one call in so many; 0 leaves it to the global setting.
    check_every: AtomicU32,
    name: Name,
}

/// What a site is called.
#[derive(Debug)]
enum Name {
    Info(&'static BrickInfo),
    /// A claim's text, taken apart when the site is first entered.
    Claim {
        text: &'static str,
        backend: u8,
        info: OnceLock<&'static BrickInfo>,
    },
}

impl Site {
    /// Of a brick made by hand.
    #[must_use]
    pub const fn new(info: &'static BrickInfo) -> Site {
        Site::named(Name::Info(info))
    }

    /// Of a claim: `text` is `Claim::TEXT`.
    #[must_use]
    pub const fn of_claim(text: &'static str, backend: u8) -> Site {
        Site::named(Name::Claim {
            text,
            backend,
            info: OnceLock::new(),
        })
    }

    const fn named(name: Name) -> Site {
        Site {
            index: AtomicU32::new(sites::UNREGISTERED),
            check_every: AtomicU32::new(0),
            name,
        }
    }

    fn info(&self) -> &'static BrickInfo {
        match &self.name {
            Name::Info(info) => info,
            Name::Claim {
                text,
                backend,
                info,
            } => info.get_or_init(|| claim::info(text, *backend)),
        }
    }

    /// Begins a call: finds the thread's slot, reads no clock yet.
    #[inline(always)]
    pub fn open(&'static self) -> Entry {
        Entry {
            site: self,
            work: Work::NONE,
            layer: None,
        }
    }

    /// This thread's slab, with a slot for this brick.
    #[inline(always)]
    fn slab(&'static self) -> Option<(&'static Slab, u32)> {
        let index = self.index.load(Relaxed);
        match slab::current() {
            Some(slab) if slab.state(index).load(Relaxed) != state::ABSENT => Some((slab, index)),
            _ => self.admit(index),
        }
    }

    #[cold]
    #[inline(never)]
    fn admit(&'static self, index: u32) -> Option<(&'static Slab, u32)> {
        let admitted = slab::claimed(self.info(), index);
        self.index.store(
            admitted.map_or_else(|index| index, |(_, index)| index),
            Relaxed,
        );
        admitted.ok()
    }
}

/// What a call declares of itself. Zero is "nothing", and costs nothing when constant.
#[derive(Clone, Copy, Debug)]
struct Work {
    flops: u64,
    bytes: u64,
    tokens: u64,
    elements: u64,
    /// `u64::MAX` where no budget was computed.
    budget_ns: u64,
}

impl Work {
    const NONE: Work = Work {
        flops: 0,
        bytes: 0,
        tokens: 0,
        elements: 0,
        budget_ns: u64::MAX,
    };

    /// Whether `ticks` are more than the budget that this call computed.
    #[inline(always)]
    fn over(&self, ticks: u64) -> u64 {
        if self.budget_ns < u64::MAX && ticks > clock::from_ns(self.budget_ns) {
            meta::OVER
        } else {
            0
        }
    }

    /// Appends what was declared; true when the log is due.
    #[inline(always)]
    fn append(&self, slab: &Slab, meta: u64) -> bool {
        let plain = meta & !(meta::SPECIAL | meta::SLOW);
        let mut due = false;
        for (amount, kind) in [
            (self.flops, Kind::Flops),
            (self.bytes, Kind::Bytes),
            (self.tokens, Kind::Tokens),
            (self.elements, Kind::Elements),
        ] {
            if amount != 0 {
                due |= slab.append(amount, plain | kind.bits());
            }
        }
        if self.budget_ns < u64::MAX && meta & meta::RECURSIVE == 0 {
            due |= slab.append(clock::from_ns(self.budget_ns), plain | Kind::Budget.bits());
        }
        due
    }
}

/// A call that is about to start: takes what it declares of itself.
#[derive(Debug)]
pub struct Entry {
    site: &'static Site,
    work: Work,
    layer: Option<u64>,
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
        if mode::get() != 0 {
            return self.start_slow();
        }
        match self.site.slab() {
            Some((slab, index)) => self.enter(slab, index, 0),
            None => self.unrecorded(),
        }
    }

    #[cold]
    #[inline(never)]
    fn start_slow(self) -> Guard {
        if mode::enabled() {
            if let Some((slab, index)) = self.site.slab() {
                return self.enter(slab, index, if mode::get() == 0 { 0 } else { meta::SLOW });
            }
        }
        self.unrecorded()
    }

    #[inline(always)]
    fn enter(self, slab: &'static Slab, index: u32, flags: u64) -> Guard {
        let (meta, saved) = begin(slab, index, self.layer);
        let mut guard = Guard {
            site: self.site,
            slab: Some(slab),
            meta: meta | flags,
            saved,
            work: self.work,
            start: 0,
            here: PhantomData,
        };
        guard.start = if flags == 0 {
            clock::ticks()
        } else {
            clock::any_ticks()
        };
        guard
    }

    #[inline(always)]
    fn unrecorded(self) -> Guard {
        Guard {
            site: self.site,
            slab: None,
            meta: verdict::context(self.layer),
            saved: 0,
            work: self.work,
            start: 0,
            here: PhantomData,
        }
    }

    /// The call is a future: its polls are timed.
    #[inline(always)]
    pub fn start_async(self) -> AsyncCall {
        AsyncCall::new(self)
    }
}

/// Opens a nesting level of the brick `index`: its meta word, and the context to restore.
#[inline(always)]
fn begin(slab: &Slab, index: u32, layer: Option<u64>) -> (u64, u64) {
    let open = slab.state(index);
    let recursive = open.load(Relaxed) == state::OPEN;
    open.store(state::OPEN, Relaxed);
    let saved = slab.context.get();
    let context = layer.map_or(saved, |layer| meta::with_layer(saved, layer));
    slab.context.set(context + meta::DEEPER);
    (
        meta::call(index, context) | if recursive { meta::RECURSIVE } else { 0 },
        saved,
    )
}

/// Closes what `begin` opened.
#[inline(always)]
fn end(slab: &Slab, meta: u64, saved: u64) {
    if meta & meta::RECURSIVE == 0 {
        slab.state(meta::index(meta) as u32)
            .store(state::IDLE, Relaxed);
    }
    slab.context.set(saved);
}

/// A running call. Dropped without `exit`, it was a panic.
#[derive(Debug)]
pub struct Guard {
    site: &'static Site,
    /// `None`: the profiler is off, or this call could not be recorded.
    slab: Option<&'static Slab>,
    meta: u64,
    saved: u64,
    work: Work,
    start: u64,
    /// A slab has one writer: a guard stays on its thread.
    here: PhantomData<*const ()>,
}

impl Guard {
    /// Reads the clock and records the call.
    #[inline(always)]
    pub fn exit(self) -> Post {
        let guard = std::mem::ManuallyDrop::new(self);
        if let Some(slab) = guard.slab {
            let now = now(guard.meta);
            let ticks = now.saturating_sub(guard.start);
            end(slab, guard.meta, guard.saved);
            let due = slab.append(ticks, guard.meta | guard.work.over(ticks));
            if due | guard.work.append(slab, guard.meta) {
                slab.fold_if_due(now, guard.meta);
            }
        }
        Post::new(guard.site, guard.meta)
    }

    /// The call ends where this is dropped, as a panic only if the thread is panicking: for a
    /// `#[track_caller]` body, which cannot move into a closure without losing its caller.
    #[inline(always)]
    pub fn exit_on_drop(self) -> ScopedGuard {
        ScopedGuard { guard: Some(self) }
    }
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

/// The clock at the end of a call; after the device, where it is to be waited for.
#[inline(always)]
fn now(meta: u64) -> u64 {
    if meta & meta::SLOW == 0 {
        clock::ticks()
    } else {
        now_slow()
    }
}

#[cold]
#[inline(never)]
fn now_slow() -> u64 {
    mode::synchronize_if_eager();
    clock::any_ticks()
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slab) = self.slab {
            unwound(slab, self.meta, self.saved, self.start);
        }
    }
}

/// Records a call that ended by a panic: by value, so that no guard has to live in memory.
#[cold]
#[inline(never)]
fn unwound(slab: &'static Slab, meta: u64, saved: u64, start: u64) {
    let now = clock::any_ticks();
    end(slab, meta, saved);
    if slab.append(now.saturating_sub(start), meta | meta::PANIC) {
        slab.fold_if_due(now, meta);
    }
}
