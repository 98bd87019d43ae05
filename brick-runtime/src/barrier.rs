//! How long threads that share a brick's work wait for each other.

use std::marker::PhantomData;
use std::sync::MutexGuard;
#[cfg(feature = "visualization")]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(feature = "visualization")]
use crate::{
    clock,
    hook::mode,
    slab::{self, meta::Kind},
};

/// A part of a brick's call that several threads work on, until the last of them is done: the fork is
/// where this is made, the barrier where it is dropped.
///
/// All the time that the threads did not work in between they were waiting: to be woken, or for the
/// others to finish. It goes to every brick that is open on the thread that made this, as times do:
/// [`BrickStats::waited_ns`](crate::BrickStats::waited_ns). That costs two clock readings, and two for
/// each thread; while nothing is recorded, a load.
///
/// ```
/// use brick_runtime::Barrier;
///
/// let barrier = Barrier::fork(2);
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let _working = barrier.work();
///         // … one half …
///     });
///     let _working = barrier.work();
///     // … the other …
/// });
/// drop(barrier);
/// ```
#[derive(Debug)]
pub struct Barrier {
    /// The tick of the fork, where it is recorded.
    #[cfg(feature = "visualization")]
    start: Option<u64>,
    #[cfg(feature = "visualization")]
    threads: u64,
    /// Ticks that the threads worked.
    #[cfg(feature = "visualization")]
    worked: AtomicU64,
    /// Others may use it, but it stays on this thread, where the bricks that it is of are open.
    here: PhantomData<MutexGuard<'static, ()>>,
}

impl Barrier {
    /// `threads` threads, this one included, begin to share work.
    #[must_use = "the barrier is where this is dropped"]
    #[inline]
    pub fn fork(threads: usize) -> Barrier {
        #[cfg(not(feature = "visualization"))]
        let _ = threads;
        Barrier {
            #[cfg(feature = "visualization")]
            start: mode::counting().then(clock::any_ticks),
            #[cfg(feature = "visualization")]
            threads: threads as u64,
            #[cfg(feature = "visualization")]
            worked: AtomicU64::new(0),
            here: PhantomData,
        }
    }

    /// This thread works until the guard is dropped, which is before the barrier is.
    #[must_use = "the work ends when this is dropped"]
    #[inline]
    pub fn work(&self) -> Working<'_> {
        Working {
            #[cfg(feature = "visualization")]
            since: self.start.map(|_| clock::any_ticks()),
            barrier: self,
        }
    }
}

/// Without `visualization` too, where it does nothing: `drop(barrier)` means the same in both.
impl Drop for Barrier {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "visualization")]
        if let (Some(start), Some(slab)) = (self.start, slab::owned()) {
            let ticks = clock::any_ticks().saturating_sub(start);
            let shared = ticks.saturating_mul(self.threads);
            // Counters of two processors may be a few ticks apart.
            let waited = shared.saturating_sub(*self.worked.get_mut());
            slab.append_to_open(Kind::Shared, shared);
            slab.append_to_open(Kind::Waited, waited);
        }
    }
}

/// A thread that works on its share; see [`Barrier::work`].
#[derive(Debug)]
pub struct Working<'b> {
    #[cfg(feature = "visualization")]
    since: Option<u64>,
    #[cfg_attr(not(feature = "visualization"), allow(dead_code))]
    barrier: &'b Barrier,
}

impl Drop for Working<'_> {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "visualization")]
        if let Some(since) = self.since {
            let ticks = clock::any_ticks().saturating_sub(since);
            self.barrier.worked.fetch_add(ticks, Relaxed);
        }
    }
}
