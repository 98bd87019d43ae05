//! The hooks that an annotated function calls (only with `visualization`).
//!
//! [`Site`] → [`Entry`] (what the call declares) → [`Guard`] or [`AsyncCall`] (it runs) →
//! [`Post`] → [`Verdict`] (its results are checked). Between the two clock reads there is
//! nothing but the function itself; around them plain loads and stores into the thread's slab.

pub(crate) mod mode;
mod poll;
mod verdict;

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use self::poll::{AsyncCall, Running};
pub use self::verdict::{Post, Verdict};
use crate::claim;
use crate::clock;
use crate::contract::Amount;
use crate::registry::BrickInfo;
use crate::slab::meta::{self, Kind, state};
use crate::slab::{self, Slab, sites};

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

    /// This thread's slab, and the meta word of a call. No slab: the call is not to be
    /// recorded, or cannot.
    #[inline(always)]
    fn find(&'static self) -> (Option<&'static Slab>, u64) {
        match self.find_fast() {
            Some((slab, meta)) => (Some(slab), meta),
            None => self.find_slow(),
        }
    }

    /// The usual case: the thread has a slab, the slab knows the brick, the mode is plain.
    #[inline(always)]
    fn find_fast(&'static self) -> Option<(&'static Slab, u64)> {
        let slab = slab::current()?;
        if slab.gate.load(Relaxed) != 0 {
            return None;
        }
        let index = self.index.load(Relaxed);
        let opened = slab.state(index).load(Relaxed);
        if opened == state::ABSENT {
            return None;
        }
        Some((slab, meta::call(index, opened)))
    }

    #[cold]
    #[inline(never)]
    fn find_slow(&'static self) -> (Option<&'static Slab>, u64) {
        // Below, an allocator may run, and be a brick itself.
        thread_local!(static INSIDE: Cell<bool> = const { Cell::new(false) });
        if INSIDE.replace(true) {
            slab::count_dropped();
            return (None, 0);
        }
        let found = self.look();
        INSIDE.set(false);
        found
    }

    fn look(&'static self) -> (Option<&'static Slab>, u64) {
        if !mode::enabled() {
            return (None, 0);
        }
        match slab::claimed(self.info(), self.index.load(Relaxed)) {
            Ok((slab, index)) => {
                self.index.store(index, Relaxed);
                (Some(slab), meta::call(index, slab.state(index).load(Relaxed)))
            }
            Err(index) => {
                self.index.store(index, Relaxed);
                (None, 0)
            }
        }
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
    fn append(&self, slab: &Slab, call: u64) -> bool {
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
fn append(slab: &Slab, kind: Kind, call: u64, amount: u64) -> bool {
    slab.append(slab::Entry { amount, children: 0, meta: meta::of(kind, meta::index(call) as u32) })
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
        let Entry { site, work, layer } = self;
        let level = match site.find_fast() {
            Some((slab, meta)) => {
                let mut level = Level::open(slab, meta, layer);
                level.start = clock::ticks();
                level
            }
            None => start_slow(site, layer),
        };
        Guard { site, level, work, here: PhantomData }
    }

    /// The call is a future: its polls are timed.
    #[inline(always)]
    pub fn start_async(self) -> AsyncCall {
        AsyncCall::new(self)
    }
}

/// One level of nesting: a call or a poll that is open.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// `None`: the profiler is off, or this call could not be recorded.
    slab: Option<&'static Slab>,
    meta: u64,
    /// The children's time of the level above.
    above: u64,
    /// The code of the layer before, if this level has one of its own.
    layer_before: Option<u64>,
    start: u64,
}

impl Level {
    /// Opens a level; its start is still to be set, last.
    #[inline(always)]
    fn open(slab: &'static Slab, meta: u64, layer: Option<u64>) -> Level {
        let layer_before = layer.map(|layer| slab.enter_layer(meta::layer_code(layer)));
        slab.state(meta::index(meta) as u32).store(state::OPEN, Relaxed);
        let above = slab.children.get();
        slab.children.set(0);
        Level { slab: Some(slab), meta, above, layer_before, start: 0 }
    }

    /// Closes the level at `now` and appends it; true when the log is due.
    #[inline(always)]
    fn close(self, slab: &Slab, now: u64, flags: u64) -> bool {
        // Below zero at worst (see `Slot::call`): the sums wrap, and come out right.
        let amount = now.wrapping_sub(self.start);
        let children = slab.children.get();
        slab.children.set(self.above.wrapping_add(amount));
        slab.state(meta::index(self.meta) as u32).store(meta::opened(self.meta), Relaxed);
        let mut due = slab.append(slab::Entry { amount, children, meta: self.meta | flags });
        if let Some(before) = self.layer_before {
            slab.enter_layer(before);
            due = true;
        }
        due
    }
}

/// All starts that are not the usual case. By value in and out, so that nothing of the caller's
/// has to live in memory.
#[cold]
#[inline(never)]
fn start_slow(site: &'static Site, layer: Option<u64>) -> Level {
    match site.find_slow() {
        (Some(slab), meta) => {
            let mut level = Level::open(slab, meta, layer);
            level.start = clock::any_ticks();
            level
        }
        (None, _) => Level { slab: None, meta: 0, above: 0, layer_before: None, start: 0 },
    }
}

/// A running call. Dropped without `exit`, it was a panic.
#[derive(Debug)]
pub struct Guard {
    site: &'static Site,
    level: Level,
    work: Work,
    /// A slab has one writer: a guard stays on its thread.
    here: PhantomData<*const ()>,
}

impl Guard {
    /// Reads the clock and records the call.
    #[inline(always)]
    pub fn exit(self) -> Post {
        let guard = std::mem::ManuallyDrop::new(self);
        let (level, work) = (guard.level, guard.work);
        if let Some(slab) = level.slab {
            if slab.gate.load(Relaxed) == 0 {
                let now = clock::ticks();
                let due = level.close(slab, now, work.over(now.saturating_sub(level.start)));
                if due | work.append(slab, level.meta) {
                    slab.fold_if_due(now);
                }
            } else {
                exit_slow(slab, level, work);
            }
        }
        Post::new(guard.site, level.meta)
    }

    /// The call ends where this is dropped, as a panic only if the thread is panicking: for a
    /// `#[track_caller]` body, which cannot move into a closure without losing its caller.
    #[inline(always)]
    pub fn exit_on_drop(self) -> ScopedGuard {
        ScopedGuard { guard: Some(self) }
    }
}

#[cold]
#[inline(never)]
fn exit_slow(slab: &Slab, level: Level, work: Work) {
    mode::synchronize_if_eager();
    let now = clock::any_ticks();
    level.close(slab, now, work.over(now.saturating_sub(level.start)));
    work.append(slab, level.meta);
    slab.fold_if_due(now);
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slab) = self.level.slab {
            unwound(slab, self.level);
        }
    }
}

/// Records a call that ended by a panic: by value, so that no guard has to live in memory.
#[cold]
#[inline(never)]
fn unwound(slab: &Slab, level: Level) {
    let now = clock::any_ticks();
    level.close(slab, now, meta::PANIC);
    slab.fold_if_due(now);
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
