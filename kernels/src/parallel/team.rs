//! Threads that stay awake between the parts of a token.
//!
//! A token of a small model is a hundred parallel parts of some ten microseconds each. Waking a thread
//! takes as long, so those of a team go on looking for work for a moment after the last, and sleep only
//! then. There is nothing to steal: a part is claimed by adding one to a counter, and a thread that comes
//! late finds that the others have done it all.

use std::any::Any;
use std::cell::{RefCell, UnsafeCell};
use std::hint;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a thread without work looks for some before it sleeps: longer than what one thread does alone
/// between two shared parts of a token, and too short to notice after the last. (20 to 300 µs were tried:
/// no difference beyond the noise of 3 %.)
const AWAKE: Duration = Duration::from_micros(50);

/// Looks at the counter between two looks at the clock, or before the processor is offered to others.
const LOOKS: u32 = 64;

/// Threads that kernels share their work with, the calling one included, inside of
/// [`install`](Self::install).
///
/// ```
/// use brick_kernels::Team;
/// use brick_kernels::{gemm::gemv, quant::Matrix};
///
/// let team = Team::new(2)?;
/// let (weights, x, mut y) = (vec![1.0; 512 * 512], vec![2.0; 512], vec![0.0; 512]);
/// team.install(|| gemv(&Matrix::from_f32(512, 512, &weights)?, &x, &mut y))?;
/// assert_eq!(y, [1024.0; 512]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    others: Vec<JoinHandle<()>>,
}

impl Team {
    /// Starts `threads - 1` threads, which sleep until there is work.
    ///
    /// # Errors
    /// If the system gives none.
    pub fn new(threads: usize) -> io::Result<Team> {
        let mut team = Team {
            shared: Arc::new(Shared::new(threads.max(1))),
            others: Vec::new(),
        };
        for n in 1..threads {
            let shared = Arc::clone(&team.shared);
            let builder = thread::Builder::new().name(format!("team {n}"));
            team.others.push(builder.spawn(move || shared.serve())?);
        }
        Ok(team)
    }

    /// Threads, with the one that calls kernels.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// Runs `body`, with this team for the kernels that it calls on this thread. One thread at a time has
    /// the team's help; kernels on others meanwhile work alone.
    pub fn install<R>(&self, body: impl FnOnce() -> R) -> R {
        struct Before(Option<Arc<Shared>>);
        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _before = Before(CURRENT.replace(Some(Arc::clone(&self.shared))));
        body()
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        self.shared.wake();
        for other in self.others.drain(..) {
            // It caught what its work panicked with.
            let _ = other.join();
        }
    }
}

thread_local! {
    /// The team that is installed on this thread.
    static CURRENT: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Threads of the team that is installed on this thread.
pub(super) fn threads() -> Option<usize> {
    CURRENT.with_borrow(|team| team.as_ref().map(|team| team.threads))
}

/// What a thread does when it has claimed a first part: `job` goes through the parts it can get.
type Job<'j> = dyn Fn(&mut Claims<'_>) + Sync + 'j;

/// Runs `job` for `n_parts`, on the team that is installed on this thread as far as it is free.
///
/// # Panics
/// With what `job` panicked with, after all threads have left it.
pub(super) fn run(n_parts: usize, job: &Job<'_>) {
    let team = CURRENT.with_borrow(Option::clone);
    let free = |team: &Arc<Shared>| !team.taken.swap(true, Acquire);
    match team.filter(free) {
        Some(team) => {
            struct Free<'t>(&'t Shared);
            impl Drop for Free<'_> {
                fn drop(&mut self) {
                    self.0.taken.store(false, Release);
                }
            }
            let free = Free(&team);
            free.0.lead(n_parts, job);
        }
        // Work inside of a part, or another thread's.
        None => job(&mut Claims::all(&AtomicU64::new(pack(n_parts)))),
    }
}

/// What the threads of a team share.
#[derive(Debug)]
struct Shared {
    threads: usize,
    /// Parts of the job in the upper half, those claimed in the lower; more are claimed than there are
    /// where threads were late.
    claims: Padded<AtomicU64>,
    /// Parts that other threads than the first have claimed and left.
    done: Padded<AtomicUsize>,
    /// Written between two jobs, read by who claimed a part of one.
    job: JobCell,
    /// The first panic of another thread.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// A job is running.
    taken: AtomicBool,
    stop: AtomicBool,
    /// Threads that sleep, or are about to.
    asleep: AtomicUsize,
    bed: Mutex<()>,
    alarm: Condvar,
}

/// On cache lines of its own (two, because they are fetched in pairs).
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// A job without its lifetime.
#[derive(Debug)]
struct JobCell(UnsafeCell<Option<*const Job<'static>>>);

// SAFETY: the pointer is to a `Sync` closure. When it is read and written is said where that is done.
unsafe impl Send for JobCell {}
// SAFETY: likewise.
unsafe impl Sync for JobCell {}

const fn pack(n_parts: usize) -> u64 {
    (n_parts as u64) << 32
}

/// Whether there are parts that nobody has claimed.
const fn any_left(claims: u64) -> bool {
    (claims & u32::MAX as u64) < (claims >> 32)
}

/// The parts of a job that one thread gets.
#[derive(Debug)]
pub(super) struct Claims<'c> {
    claims: &'c AtomicU64,
    /// The part that told this thread that there is a job.
    first: Option<usize>,
    taken: usize,
}

impl<'c> Claims<'c> {
    fn all(claims: &'c AtomicU64) -> Self {
        Self {
            claims,
            first: None,
            taken: 0,
        }
    }

    /// Claims a first part; `None` if there is none.
    fn begin(claims: &'c AtomicU64) -> Option<Self> {
        let mut begun = Self::all(claims);
        begun.first = begun.next();
        begun.first.is_some().then_some(begun)
    }
}

impl Iterator for Claims<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if !any_left(self.claims.load(Relaxed)) {
            return None;
        }
        // Acquire: what the job was published with, by the store that heads all these additions.
        let before = self.claims.fetch_add(1, AcqRel);
        any_left(before).then(|| {
            self.taken += 1;
            before as u32 as usize
        })
    }
}

impl Shared {
    fn new(threads: usize) -> Shared {
        Shared {
            threads,
            claims: Padded(AtomicU64::new(0)),
            done: Padded(AtomicUsize::new(0)),
            job: JobCell(UnsafeCell::new(None)),
            panic: Mutex::new(None),
            taken: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            asleep: AtomicUsize::new(0),
            bed: Mutex::new(()),
            alarm: Condvar::new(),
        }
    }

    /// The first thread's part in a job; the caller has taken the team.
    fn lead(&self, n_parts: usize, job: &Job<'_>) {
        assert!(u32::try_from(n_parts).is_ok(), "{n_parts} parts");
        let job: *const Job<'_> = job;
        // SAFETY: only the lifetime changes. Who reads the pointer has claimed a part, and until all
        // parts that were claimed are done this function does not return.
        let job = unsafe { std::mem::transmute::<*const Job<'_>, *const Job<'static>>(job) };
        // SAFETY: the team is taken, so nobody else writes. Who reads has claimed a part: of the job
        // before, which ended when all its parts were done, so none is left to read for it; or of this
        // one, which is published below.
        unsafe { *self.job.0.get() = Some(job) };
        self.done.0.store(0, Relaxed);
        self.claims.0.store(pack(n_parts), Release);
        // Either a thread that goes to sleep sees the parts, or this one sees that it sleeps.
        fence(SeqCst);
        if self.asleep.load(Relaxed) > 0 {
            self.wake();
        }
        let mut claims = Claims::all(&self.claims.0);
        // SAFETY: the reference that it was made from is alive.
        let own = panic::catch_unwind(AssertUnwindSafe(|| unsafe { (*job)(&mut claims) }));
        if own.is_err() {
            // What this thread leaves, nobody need do.
            let before = self.claims.0.swap(0, AcqRel);
            let claimed = (before as u32).min((before >> 32) as u32) as usize;
            self.join(claimed - claims.taken);
        } else {
            self.join(n_parts - claims.taken);
        }
        let others = self
            .panic
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(panic) = own.err().or(others) {
            panic::resume_unwind(panic);
        }
    }

    /// Waits until the other threads have left their `n_parts`.
    fn join(&self, n_parts: usize) {
        let mut looks = 0;
        while self.done.0.load(Acquire) < n_parts {
            looks += 1;
            if looks % LOOKS == 0 {
                // Its thread may be waiting for this processor.
                thread::yield_now();
            }
            hint::spin_loop();
        }
    }

    /// What the other threads do all their life.
    fn serve(&self) {
        while self.wait() {
            let Some(mut claims) = Claims::begin(&self.claims.0) else {
                continue;
            };
            // SAFETY: a part of the current job is claimed, so that the job was published before (its
            // claim acquired that) and is not over: neither is the cell written nor the closure gone
            // until `done` says that the part is.
            let job = unsafe { (*self.job.0.get()).map(|job| &*job) };
            if let Some(job) = job {
                let ran = panic::catch_unwind(AssertUnwindSafe(|| job(&mut claims)));
                if let Err(panic) = ran {
                    let mut first = self.panic.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(panic);
                }
            }
            self.done.0.fetch_add(claims.taken, Release);
        }
    }

    /// Waits for parts to claim; `false` if the team ends.
    fn wait(&self) -> bool {
        let mut asleep_at = None;
        loop {
            for _ in 0..LOOKS {
                if any_left(self.claims.0.load(Relaxed)) {
                    return true;
                }
                hint::spin_loop();
            }
            let now = Instant::now();
            if now >= *asleep_at.get_or_insert(now + AWAKE) || self.stop.load(Relaxed) {
                return self.sleep();
            }
        }
    }

    /// Sleeps until there may be parts to claim; `false` if the team ends.
    fn sleep(&self) -> bool {
        let mut bed = self.lock();
        self.asleep.fetch_add(1, Relaxed);
        // See `lead`.
        fence(SeqCst);
        let left = || any_left(self.claims.0.load(Relaxed));
        while !left() && !self.stop.load(Relaxed) {
            bed = self.alarm.wait(bed).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.fetch_sub(1, Relaxed);
        !self.stop.load(Relaxed)
    }

    /// Wakes all that sleep. Who is about to sleep holds the lock until it does.
    fn wake(&self) {
        drop(self.lock());
        self.alarm.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.bed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds one to each of `n_parts` counters, on the installed team; which threads did it.
    fn count(n_parts: usize) -> Vec<usize> {
        let counters: Vec<_> = (0..n_parts).map(|_| AtomicUsize::new(0)).collect();
        run(n_parts, &|claims| {
            for part in claims {
                counters[part].fetch_add(1, Relaxed);
            }
        });
        counters.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_part_is_done_once() {
        let rounds = if cfg!(miri) { 5 } else { 20_000 };
        for threads in 1..=4 {
            let team = Team::new(threads).unwrap();
            assert_eq!(team.threads(), threads);
            team.install(|| {
                for round in 0..rounds {
                    let n_parts = round % 9;
                    assert_eq!(count(n_parts), vec![1; n_parts]);
                }
            });
        }
    }

    /// A part that waits for the other's thread ends only if there is one.
    #[test]
    fn threads_work_at_the_same_time() {
        let team = Team::new(2).unwrap();
        team.install(|| {
            for _ in 0..if cfg!(miri) { 2 } else { 100 } {
                let meeting = std::sync::Barrier::new(2);
                run(2, &|claims| {
                    for _ in claims {
                        meeting.wait();
                    }
                });
            }
        });
    }

    #[test]
    fn idle_threads_sleep_and_wake() {
        let team = Team::new(3).unwrap();
        for _ in 0..3 {
            while team.shared.asleep.load(Relaxed) < 2 {
                thread::yield_now();
            }
            let meeting = std::sync::Barrier::new(3);
            team.install(|| {
                run(3, &|claims| {
                    for _ in claims {
                        meeting.wait();
                    }
                });
            });
        }
    }

    #[test]
    fn work_without_a_team_inside_of_a_part_or_beside_another_thread_is_done_alone() {
        assert_eq!((threads(), count(3)), (None, vec![1; 3]));
        let team = Team::new(2).unwrap();
        team.install(|| {
            assert_eq!(threads(), Some(2));
            run(4, &|claims| {
                for _ in claims {
                    assert_eq!(count(2), [1, 1]);
                }
            });
        });
        assert_eq!(threads(), None);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let jobs = if cfg!(miri) { 3 } else { 50 };
                    team.install(|| (0..jobs).for_each(|_| assert_eq!(count(3), [1; 3])));
                });
            }
        });
    }

    #[test]
    fn a_panic_comes_out_after_all_threads_have_left() {
        let team = Team::new(3).unwrap();
        for bad in 0..6 {
            let inside = AtomicUsize::new(0);
            let ran = panic::catch_unwind(AssertUnwindSafe(|| {
                team.install(|| {
                    run(6, &|claims| {
                        struct Inside<'a>(&'a AtomicUsize);
                        impl Drop for Inside<'_> {
                            fn drop(&mut self) {
                                self.0.fetch_sub(1, SeqCst);
                            }
                        }
                        inside.fetch_add(1, SeqCst);
                        let _inside = Inside(&inside);
                        for part in claims {
                            if part == bad {
                                panic::resume_unwind(Box::new(part));
                            }
                        }
                    });
                });
            }));
            let payload = ran.expect_err("a part panics");
            assert_eq!(payload.downcast_ref(), Some(&bad));
            assert_eq!(inside.load(SeqCst), 0);
            // The team is as good as new.
            team.install(|| assert_eq!(count(5), [1; 5]));
        }
    }
}
