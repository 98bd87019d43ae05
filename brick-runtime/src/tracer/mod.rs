//! The tracer: looks closely at the next call of a brick whose timing is off.
//!
//! The profiler is always on and costs nanoseconds; seeing a call's system calls costs milliseconds.
//! So a [`BrickTracer`] reads the profiler's statistics, and where they are past a threshold
//! ([`EscalationThresholds`]) the brick's next call is *escalated*: observed system call by system
//! call, on every thread, to tell computing from memory management, waiting for threads, drivers,
//! input and output ([`SyscallBreakdown`]). Escalated calls are kept out of the statistics, for
//! they are slower.
//!
//! ```
//! # use brick_runtime::{BrickInfo, tracer::BrickTracer};
//! static LOAD: BrickInfo = BrickInfo::new("Load", module_path!(), "load", file!(), line!());
//! let tracer = BrickTracer::new();
//! let traced = tracer.trace_now(&LOAD, 500, || std::fs::read("Cargo.toml"));
//! match &traced.syscall_breakdown {
//!     Some(breakdown) => println!("{:.1} µs reading", breakdown.read_us),
//!     None => println!("no breakdown: {}", traced.no_breakdown.as_deref().unwrap_or("?")),
//! }
//! ```
//!
//! # What is observed with what
//!
//! | backend | sees | adds to each system call | needs |
//! |---|---|---|---|
//! | [`Perf`](TraceBackend::Perf) | system calls, timed by the kernel | about 2 µs | tracefs that can be read, and `CAP_PERFMON` or `kernel.perf_event_paranoid` ≤ 1 |
//! | [`Ptrace`](TraceBackend::Ptrace) | system calls, timed by a helper process | about 15 µs | to be traced by nobody else |
//! | [`Cpu`](TraceBackend::Cpu) | CPU, run-queue and blocked time of the caller | nothing | nothing |
//!
//! The best one that works is taken; [`backends`] tries them all and says why one does not.
//! What observing adds is measured beside each escalated call and taken out of its figures.
//!
//! # Limits
//!
//! - Bricks that were open on other threads when a call is escalated, and those *around* the
//!   escalated call, have the tracer's time in their inclusive times; self times have not.
//! - No brick that begins on any thread while a call is escalated is recorded:
//!   [`TracerCounts::not_recorded`] counts them.
//! - Threads that a call starts are followed, processes are not: the breakdown is marked partial. So it
//!   is where perf cannot follow threads, which takes Linux 5.13 and two descriptors for each thread
//!   on each processor.
//! - A wait for another thread takes as long as that thread, and what observing it adds is not
//!   taken out of the waiter's time.
//! - The helper process is this program started again, which becomes a tracer in a constructor,
//!   before `main`; earlier constructors of the program run in it too. Threads that block while it
//!   comes may see an `EINTR` from those calls that are not restarted (`epoll_wait` is one, see
//!   signal(7)).

mod breakdown;
mod escalation;
#[cfg_attr(
    all(
        feature = "visualization",
        feature = "tracer",
        target_os = "linux",
        target_pointer_width = "64"
    ),
    path = "linux/mod.rs"
)]
#[cfg_attr(
    not(all(
        feature = "visualization",
        feature = "tracer",
        target_os = "linux",
        target_pointer_width = "64"
    )),
    path = "absent.rs"
)]
mod observer;
mod probe;
mod thresholds;
mod watch;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime};

pub use self::breakdown::{
    BackendProblem, SyscallBreakdown, SyscallCategory, SyscallUsage, ThreadSyscalls, TraceBackend,
};
use self::escalation::TokenBucket;
pub use self::probe::{BackendStatus, backends};
pub use self::thresholds::{EscalationReason, EscalationThresholds};
use self::watch::Watch;
use crate::profiler::BrickProfiler;
use crate::registry::{BrickId, BrickInfo};

/// What became of one call.
#[derive(Clone, Debug)]
pub struct TracedBrickResult<T> {
    /// What the call returned.
    pub result: T,
    /// Microseconds that it took, what tracing added taken out.
    pub duration_us: u64,
    /// Where they went; `None` if the call was not escalated, or could not be observed.
    pub syscall_breakdown: Option<SyscallBreakdown>,
    /// Why an escalated call has no breakdown.
    pub no_breakdown: Option<Cow<'static, str>>,
    /// Budget over duration: 1 is just kept, 0.25 is four times over.
    pub efficiency_score: f32,
    /// It took longer than its budget.
    pub over_budget: bool,
    /// Why the call was escalated; `None` if it was not.
    pub escalation_reason: Option<EscalationReason>,
    /// The id under which [`BrickTracer::with_exporter`]'s function exported the call.
    pub otlp_span_id: Option<String>,
}

/// An escalated call, for an exporter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EscalatedCall<'a> {
    /// Whose.
    pub brick: &'static BrickInfo,
    /// When it began and ended, tracing included.
    pub start: SystemTime,
    /// See `start`.
    pub end: SystemTime,
    /// Why it was escalated.
    pub reason: EscalationReason,
    /// Its budget in microseconds.
    pub budget_us: u64,
    /// Where its time went, if it could be observed.
    pub breakdown: Option<&'a SyscallBreakdown>,
}

/// What a tracer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct TracerCounts {
    /// Calls that were escalated.
    pub escalated: u64,
    /// Calls that would have been, but for the rate limit.
    pub rate_limited: u64,
    /// Calls that would have been, but for another escalated call at that time.
    pub busy: u64,
    /// Calls of annotated functions that began during escalated calls, and so are in no statistics:
    /// of all tracers of this process, the escalated calls themselves included.
    pub not_recorded: u64,
}

/// Escalates calls of bricks whose timing is off, and at most so many a second.
///
/// One per program is enough; it may be shared between threads. Dropping it leaves nothing behind.
pub struct BrickTracer {
    thresholds: EscalationThresholds,
    tokens: TokenBucket,
    watch: Watch,
    observer: observer::Observer,
    exporter: Option<Exporter>,
    escalated: AtomicU64,
    rate_limited: AtomicU64,
    busy: AtomicU64,
}

type Exporter = Box<dyn Fn(&EscalatedCall<'_>) -> Option<String> + Send + Sync>;

impl Default for BrickTracer {
    fn default() -> Self {
        BrickTracer::new()
    }
}

impl fmt::Debug for BrickTracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrickTracer")
            .field("thresholds", &self.thresholds)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// One escalated call at a time in a process: they would observe each other.
static ACTIVE: Mutex<()> = Mutex::new(());

impl BrickTracer {
    /// With the default thresholds and the best backend that works here.
    #[must_use]
    pub fn new() -> BrickTracer {
        BrickTracer::with_thresholds(EscalationThresholds::default())
    }

    /// With other thresholds.
    #[must_use]
    pub fn with_thresholds(thresholds: EscalationThresholds) -> BrickTracer {
        BrickTracer {
            thresholds,
            tokens: TokenBucket::new(thresholds.max_per_second),
            watch: Watch::new(Instant::now()),
            observer: observer::Observer::default(),
            exporter: None,
            escalated: AtomicU64::new(0),
            rate_limited: AtomicU64::new(0),
            busy: AtomicU64::new(0),
        }
    }

    /// With this backend or none.
    #[must_use]
    pub fn with_backend(mut self, backend: TraceBackend) -> BrickTracer {
        self.observer.only(backend);
        self
    }

    /// With perf rings of so many pages (rounded up to a power of two) instead of 256 for each
    /// processor, or 32 where there are many. Where fewer may be locked, fewer are taken.
    #[must_use]
    pub fn with_ring_pages(mut self, pages: NonZeroUsize) -> BrickTracer {
        self.observer.ring_pages(pages);
        self
    }

    /// Gives each escalated call to a function that exports it, and returns its span's id.
    #[must_use]
    pub fn with_exporter(
        mut self,
        export: impl Fn(&EscalatedCall<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> BrickTracer {
        self.exporter = Some(Box::new(export));
        self
    }

    /// The thresholds.
    #[must_use]
    pub fn thresholds(&self) -> &EscalationThresholds {
        &self.thresholds
    }

    /// Which thresholds these figures are past: the coefficient of variation (0.15 is 15 %) and
    /// the efficiency (0.25 is 25 %). NaN is past none.
    #[must_use]
    pub fn escalation_reason(&self, cv: f64, efficiency: f64) -> Option<EscalationReason> {
        self.thresholds.reason(cv, efficiency)
    }

    /// Whether a brick of these figures is to be traced now. If it is, that counts against the
    /// rate; healthy bricks never do.
    #[must_use]
    pub fn should_trace(&self, cv: f64, efficiency: f64) -> bool {
        self.escalation_reason(cv, efficiency).is_some() && self.take_token()
    }

    /// What this tracer has done so far.
    #[must_use]
    pub fn counts(&self) -> TracerCounts {
        TracerCounts {
            escalated: self.escalated.load(Relaxed),
            rate_limited: self.rate_limited.load(Relaxed),
            busy: self.busy.load(Relaxed),
            not_recorded: pause::not_recorded(),
        }
    }

    /// Calls `f`, which is one call of the brick `id`, escalated if the brick's recent statistics
    /// ask for it. The calls that decide are those recorded by the profiler; a brick that is
    /// annotated inside `f` records itself.
    pub fn trace<T>(
        &self,
        id: impl BrickId,
        budget_us: u64,
        f: impl FnOnce() -> T,
    ) -> TracedBrickResult<T> {
        self.trace_info(id.info(), budget_us, f)
    }

    /// [`trace`](Self::trace) for a brick of any crate.
    pub fn trace_info<T>(
        &self,
        brick: &'static BrickInfo,
        budget_us: u64,
        f: impl FnOnce() -> T,
    ) -> TracedBrickResult<T> {
        match self.verdict(brick) {
            Some(reason) => self.escalate(brick, budget_us, reason, f),
            None => plain(budget_us, f),
        }
    }

    /// Calls `f` escalated, whatever the statistics and the rate say; not if another call is
    /// escalated at this time.
    pub fn trace_now<T>(
        &self,
        brick: &'static BrickInfo,
        budget_us: u64,
        f: impl FnOnce() -> T,
    ) -> TracedBrickResult<T> {
        self.escalate(brick, budget_us, EscalationReason::Requested, f)
    }

    fn take_token(&self) -> bool {
        let taken = self.tokens.take(Instant::now());
        if !taken {
            self.rate_limited.fetch_add(1, Relaxed);
        }
        taken
    }

    /// Why the next call of the brick is to be escalated.
    fn verdict(&self, brick: &BrickInfo) -> Option<EscalationReason> {
        if !cfg!(feature = "visualization") {
            return None;
        }
        if self.watch.is_due(Instant::now()) {
            let snapshot = BrickProfiler::global().snapshot();
            self.watch.look(&snapshot, &self.thresholds);
            self.observer.rest();
        }
        // The threshold before the token.
        self.watch.pending(brick).filter(|_| self.take_token())
    }

    /// Calls `f` while nothing is recorded and, if there is a way, every system call is seen.
    fn observe<T>(
        &self,
        budget_us: u64,
        f: impl FnOnce() -> T,
    ) -> (
        TracedBrickResult<T>,
        Result<SyscallBreakdown, BackendProblem>,
    ) {
        let _paused = pause::pause();
        match self.observer.start() {
            Ok(observation) => {
                let traced = plain(budget_us, f);
                (traced, Ok(observation.end()))
            }
            Err(problem) => (plain(budget_us, f), Err(problem)),
        }
    }

    fn escalate<T>(
        &self,
        brick: &'static BrickInfo,
        budget_us: u64,
        reason: EscalationReason,
        f: impl FnOnce() -> T,
    ) -> TracedBrickResult<T> {
        if !cfg!(feature = "visualization") {
            return TracedBrickResult {
                no_breakdown: Some(crate::snapshot::BUILT_WITHOUT.into()),
                ..plain(budget_us, f)
            };
        }
        let _one = match ACTIVE.try_lock() {
            Ok(guard) => guard,
            // A brick that panicked while escalated has left nothing half done.
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => {
                self.busy.fetch_add(1, Relaxed);
                return TracedBrickResult {
                    no_breakdown: Some("another call was being escalated".into()),
                    ..plain(budget_us, f)
                };
            }
        };
        self.watch.spend(brick);
        self.escalated.fetch_add(1, Relaxed);
        let start = SystemTime::now();
        let (mut traced, breakdown) = self.observe(budget_us, f);
        let end = SystemTime::now();
        match breakdown {
            Ok(breakdown) => {
                if let [Some(wall), Some(tracer)] =
                    [&breakdown.wall_us, &breakdown.tracer_us].map(|figure| figure.value())
                {
                    traced = timed(traced.result, (wall - tracer).max(0.0) * 1e3, budget_us);
                }
                traced.syscall_breakdown = Some(breakdown);
            }
            Err(problem) => traced.no_breakdown = Some(problem.to_string().into()),
        }
        traced.escalation_reason = Some(reason);
        if let Some(export) = &self.exporter {
            traced.otlp_span_id = export(&EscalatedCall {
                brick,
                start,
                end,
                reason,
                budget_us,
                breakdown: traced.syscall_breakdown.as_ref(),
            });
        }
        traced
    }
}

/// A call that is timed and nothing else.
fn plain<T>(budget_us: u64, f: impl FnOnce() -> T) -> TracedBrickResult<T> {
    let begin = Instant::now();
    let result = f();
    let ns = begin.elapsed().as_nanos() as f64;
    timed(result, ns, budget_us)
}

fn timed<T>(result: T, ns: f64, budget_us: u64) -> TracedBrickResult<T> {
    let budget_ns = budget_us as f64 * 1e3;
    TracedBrickResult {
        result,
        duration_us: (ns / 1e3).round() as u64,
        syscall_breakdown: None,
        no_breakdown: None,
        // A duration that the clock cannot tell from none counts as one nanosecond.
        efficiency_score: (budget_ns / ns.max(1.0)) as f32,
        over_budget: ns > budget_ns,
        escalation_reason: None,
        otlp_span_id: None,
    }
}

#[cfg(feature = "visualization")]
use crate::hook::pause;

/// Without `visualization` there is nothing to pause.
#[cfg(not(feature = "visualization"))]
mod pause {
    /// Of nothing.
    pub(super) struct Paused;
    pub(super) fn pause() -> Paused {
        Paused
    }
    pub(super) fn not_recorded() -> u64 {
        0
    }
}
