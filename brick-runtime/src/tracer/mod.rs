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
//! | [`Perf`](TraceBackend::Perf) | system calls, timed by the kernel | 0.43 µs | tracefs that can be read, and `CAP_PERFMON` or `kernel.perf_event_paranoid` ≤ 1 |
//! | [`Ptrace`](TraceBackend::Ptrace) | system calls, timed by a helper process | 7.9 µs | to be traced by nobody else |
//! | [`Cpu`](TraceBackend::Cpu) | CPU, run-queue and blocked time of the caller | nothing | nothing |
//!
//! The best one that works is taken; [`backends`] tries them all, measures what they add here, and says
//! why one does not work. The table has what was measured on one machine, a busy one of two cores (AMD
//! Turin, Linux 6.18): the medians of 40 sessions, of which the middle 80 % were from 0.41 to 0.44 µs
//! and from 7.5 to 8.0 µs. On a virtual machine a stop of `Ptrace` takes 2 µs or 60, as the scheduler
//! places the helper. So what observing adds is taken out of a call's figures as it was in that very
//! call: measured in its stops where the scheduler counts them, else calibrated right before it.
//!
//! # Without a closure
//!
//! A tracer that is [armed](BrickTracer::arm) escalates calls of annotated functions wherever they are
//! made. Nothing is asked of it on the fast path: while a verdict waits for its call, all calls take the
//! slow path, and a verdict waits no longer than until the next look.
//!
//! ```
//! # use std::sync::Arc;
//! # use brick_runtime::tracer::BrickTracer;
//! let tracer = Arc::new(BrickTracer::new().with_exporter(|call| {
//!     println!("{}: {}, {:.1} µs", call.brick.name, call.reason, call.duration_us);
//!     None
//! }));
//! let armed = tracer.arm().expect("no other tracer is armed");
//! for _request in 0..3 {
//!     // … what the program is there for, and now and then:
//!     armed.look();
//! }
//! ```
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

#[cfg_attr(not(feature = "visualization"), path = "armed_absent.rs")]
pub(crate) mod armed;
mod breakdown;
mod call;
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
mod ongoing;
mod probe;
mod span;
mod syscall;
mod thresholds;
mod watch;

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

pub use self::armed::Armed;
pub use self::breakdown::{
    BackendProblem, SyscallBreakdown, SyscallCategory, SyscallUsage, ThreadSyscalls, TraceBackend,
};
pub use self::call::{EscalatedCall, TracedBrickResult, TracerCounts};
use self::call::{plain, timed};
use self::escalation::TokenBucket;
use self::ongoing::{Alone, Cause, Escalated, Ongoing, pause};
pub use self::probe::{BackendStatus, backends};
pub use self::syscall::syscall_name;
pub use self::thresholds::{EscalationReason, EscalationThresholds};
use self::watch::Watch;
use crate::profiler::BrickProfiler;
use crate::registry::{BrickId, BrickInfo};
use crate::sink::Exporter;
use crate::span::{Resource, TraceContext};

/// Escalates calls of bricks whose timing is off, and at most so many a second.
///
/// One per program is enough; it may be shared between threads. Dropping it leaves nothing behind.
pub struct BrickTracer {
    thresholds: EscalationThresholds,
    tokens: TokenBucket,
    watch: Watch,
    observer: observer::Observer,
    exporter: Option<Export>,
    escalated: AtomicU64,
    rate_limited: AtomicU64,
    busy: AtomicU64,
}

type Export = Box<dyn Fn(&EscalatedCall<'_>) -> Option<String> + Send + Sync>;

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
            watch: Watch::new(Instant::now(), thresholds.look_every),
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
    /// [`EscalatedCall::span`] makes a span of it; [`with_spans`](Self::with_spans) does all of it.
    #[must_use]
    pub fn with_exporter(
        mut self,
        export: impl Fn(&EscalatedCall<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> BrickTracer {
        self.exporter = Some(Box::new(export));
        self
    }

    /// Offers a span of each escalated call to `exporter`: as a child of `parent`, or each in a trace of
    /// its own. The id that is returned is that of the span which is sent; `None` where there was no
    /// room for it.
    #[must_use]
    pub fn with_spans(
        self,
        exporter: Arc<Exporter>,
        resource: impl Into<Arc<Resource>>,
        parent: Option<TraceContext>,
    ) -> BrickTracer {
        let resource = resource.into();
        self.with_exporter(move |call| {
            let span = call.span(Arc::clone(&resource));
            let span = match &parent {
                Some(parent) => span.in_context(parent),
                None => span,
            };
            let id = span.span_id.to_string();
            exporter.offer(span).then_some(id)
        })
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
            paused_ns: pause::paused_ns(),
        }
    }

    /// Escalates calls of every annotated function of this process, wherever they are made, without
    /// anything around them, for as long as the result lives and is [told to look](Armed::look). They
    /// go to the [exporter](Self::with_exporter), which is called on the thread of the call. An `async`
    /// function's polls are not escalated. `None` while another tracer is armed.
    #[must_use]
    pub fn arm(self: &Arc<Self>) -> Option<Armed> {
        Armed::new(self)
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
        self.look(false);
        // The threshold before the token.
        self.watch.pending(brick).filter(|_| self.take_token())
    }

    /// Looks at the profiler's statistics, if it is time to; `anew` if verdicts that have not had their
    /// call since the last look are to be dropped.
    fn look(&self, anew: bool) {
        if self.watch.is_due(Instant::now()) {
            if anew {
                self.watch.drop_pending();
            }
            let snapshot = BrickProfiler::global().snapshot();
            self.watch.look(&snapshot, &self.thresholds);
            self.observer.rest();
        }
    }

    fn escalate<T>(
        &self,
        brick: &'static BrickInfo,
        budget_us: u64,
        reason: EscalationReason,
        f: impl FnOnce() -> T,
    ) -> TracedBrickResult<T> {
        let none = |why: &'static str, f| TracedBrickResult {
            no_breakdown: Some(why.into()),
            ..plain(budget_us, f)
        };
        if !cfg!(feature = "visualization") {
            return none(crate::snapshot::BUILT_WITHOUT, f);
        }
        let Some(alone) = Alone::take() else {
            self.busy.fetch_add(1, Relaxed);
            return none("another call was being escalated", f);
        };
        let cause = Cause {
            brick,
            budget_us: Some(budget_us as f64),
            reason,
        };
        let ongoing = self.begin(cause, alone);
        let result = f();
        let escalated = ongoing.end();
        TracedBrickResult {
            otlp_span_id: self.export(&escalated),
            syscall_breakdown: escalated.breakdown,
            no_breakdown: escalated.no_breakdown,
            escalation_reason: Some(reason),
            ..timed(result, escalated.ns, budget_us)
        }
    }

    /// Begins to look at a call.
    fn begin(&self, cause: Cause, alone: Alone) -> Ongoing {
        self.watch.spend(cause.brick);
        self.escalated.fetch_add(1, Relaxed);
        Ongoing::begin(cause, &self.observer, alone)
    }

    /// Shows a call to the exporter: its span's id.
    fn export(&self, escalated: &Escalated) -> Option<String> {
        let export = self.exporter.as_ref()?;
        export(&escalated.call())
    }
}
