//! `--escalate`: calls of bricks whose timing is off, looked at system call by system call.

use anyhow::{Context, Result};
use brick_runtime::tracer::{
    Armed, BackendProblem, BrickTracer, EscalatedCall, EscalationReason, EscalationThresholds,
    SyscallBreakdown, SyscallCategory, ThreadSyscalls, TraceBackend, syscall_name,
};
use brick_runtime::{Figure, span::Resource, span::SpanRecord};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time between two looks at the statistics: one is asked for after each token, and the time that it
/// takes is taken out of the report.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A tracer that waits for calls to look at.
pub(super) struct Escalation {
    tracer: Arc<BrickTracer>,
    armed: Armed,
    seen: Arc<Mutex<Seen>>,
    looks: Duration,
    /// What was paused in this process before.
    paused_before: u64,
}

/// What was looked at.
#[derive(Default)]
struct Seen {
    bricks: BTreeMap<(&'static str, &'static str), Brick>,
    spans: Vec<SpanRecord>,
}

/// All of it, and what `--format json` prints.
#[derive(Debug, Serialize)]
pub(super) struct Escalated {
    /// What each escalated call is.
    unit: &'static str,
    /// Above this standard deviation over mean a brick is looked at.
    pub(super) cv: f64,
    /// Below this budget over time, too.
    pub(super) efficiency: f64,
    /// Calls that were looked at.
    pub(super) calls: u64,
    /// Calls that would have been, but for the limit of `max_per_second`.
    pub(super) rate_limited: u64,
    pub(super) max_per_second: u32,
    /// Calls of bricks that are in no statistics, for they began while another was looked at; the
    /// escalated ones among them.
    calls_left_out: u64,
    /// Wall time that is not part of the phase's: escalated calls, and beginning and ending to look.
    pub(super) left_out_ns: Figure,
    pub(super) bricks: Vec<Brick>,
    #[serde(skip)]
    spans: Vec<SpanRecord>,
}

/// The escalated calls of one brick. Times are sums over these calls.
#[derive(Debug, Serialize)]
pub(super) struct Brick {
    pub(super) brick: &'static str,
    crate_name: &'static str,
    pub(super) calls: u64,
    /// Why, the last time.
    #[serde(flatten)]
    pub(super) reason: EscalationReason,
    pub(super) budget_us: Option<f64>,
    /// What it was observed with, the last time.
    pub(super) backend: Option<TraceBackend>,
    /// Better ones, and what keeps them from being used.
    pub(super) passed_over: Vec<BackendProblem>,
    /// Calls of which something may be missing, and what, the last time.
    pub(super) partial_calls: u64,
    pub(super) partial: Option<String>,
    /// Why there is nothing at all, the last time.
    pub(super) no_breakdown: Option<String>,
    pub(super) wall_us: Figure,
    pub(super) compute_us: Figure,
    pub(super) tracer_us: Figure,
    /// What looking added to each system call, the last time.
    pub(super) resolution_us: Figure,
    /// Of the thread that called the brick.
    pub(super) syscalls: BTreeMap<&'static str, Usage>,
    /// All threads that did anything meanwhile, or waited.
    pub(super) threads: Vec<Thread>,
}

/// System calls of one category.
#[derive(Debug, Serialize)]
pub(super) struct Usage {
    pub(super) us: Figure,
    /// How many began; null where they were not seen.
    pub(super) calls: Option<u64>,
}

/// One thread during the escalated calls of one brick.
#[derive(Debug, Serialize)]
pub(super) struct Thread {
    pub(super) tid: u32,
    pub(super) name: Option<String>,
    /// Escalated calls that it made itself.
    pub(super) as_caller: u64,
    cpu_us: Figure,
    syscalls: BTreeMap<&'static str, Usage>,
    /// Escalated calls that it sat out in one system call from beginning to end, by that call's name.
    pub(super) waited_in: BTreeMap<String, u64>,
}

impl Escalation {
    /// Begins to wait; `spans` says whether somebody wants the calls as spans.
    ///
    /// # Errors
    /// If something else in this process waits already.
    pub(super) fn start(spans: bool) -> Result<Escalation> {
        let seen = Arc::<Mutex<Seen>>::default();
        let theirs = Arc::clone(&seen);
        let resource = spans.then(|| Arc::new(Resource::detect("apr")));
        let thresholds = EscalationThresholds {
            look_every: LOOK_EVERY,
            ..EscalationThresholds::default()
        };
        let tracer = BrickTracer::with_thresholds(thresholds);
        let tracer = Arc::new(tracer.with_exporter(move |call| {
            let mut seen = lock(&theirs);
            seen.add(call);
            let span = call.span(Arc::clone(resource.as_ref()?));
            let id = span.span_id.to_string();
            seen.spans.push(span);
            Some(id)
        }));
        let armed = tracer.arm().context("another tracer waits for calls")?;
        Ok(Escalation {
            armed,
            paused_before: tracer.counts().paused_ns,
            tracer,
            seen,
            looks: Duration::ZERO,
        })
    }

    /// Looks at the statistics: after each token.
    pub(super) fn look(&mut self) {
        let clock = Instant::now();
        self.armed.look();
        self.looks += clock.elapsed();
    }

    /// Waits no more.
    pub(super) fn finish(self) -> Escalated {
        drop(self.armed);
        let counts = self.tracer.counts();
        let EscalationThresholds {
            cv,
            efficiency,
            max_per_second,
            ..
        } = *self.tracer.thresholds();
        let seen = std::mem::take(&mut *lock(&self.seen));
        let paused = counts.paused_ns - self.paused_before;
        Escalated {
            unit: "one call of the brick",
            cv,
            efficiency,
            calls: counts.escalated,
            rate_limited: counts.rate_limited,
            max_per_second,
            calls_left_out: counts.not_recorded,
            left_out_ns: Figure::Measured(paused as f64 + self.looks.as_nanos() as f64),
            bricks: seen.bricks.into_values().collect(),
            spans: seen.spans,
        }
    }
}

impl Escalated {
    /// The spans of the calls, for whoever sends them.
    pub(super) fn take_spans(&mut self) -> Vec<SpanRecord> {
        std::mem::take(&mut self.spans)
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    // Whoever panicked in between has counted a call by half, at worst.
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Seen {
    fn add(&mut self, call: &EscalatedCall<'_>) {
        let key = (call.brick.crate_name, call.brick.name);
        let brick = self.bricks.entry(key).or_insert_with(|| Brick::new(call));
        brick.calls += 1;
        brick.reason = call.reason;
        brick.no_breakdown = call.no_breakdown.map(String::from);
        if let Some(breakdown) = call.breakdown {
            brick.add(breakdown);
        }
    }
}

impl Brick {
    fn new(call: &EscalatedCall<'_>) -> Brick {
        Brick {
            brick: call.brick.name,
            crate_name: call.brick.crate_name,
            calls: 0,
            reason: call.reason,
            budget_us: call.budget_us,
            backend: None,
            passed_over: Vec::new(),
            partial_calls: 0,
            partial: None,
            no_breakdown: None,
            wall_us: unknown(),
            compute_us: unknown(),
            tracer_us: unknown(),
            resolution_us: unknown(),
            syscalls: BTreeMap::new(),
            threads: Vec::new(),
        }
    }

    fn add(&mut self, breakdown: &SyscallBreakdown) {
        let first = self.backend.is_none();
        self.backend = Some(breakdown.backend);
        self.passed_over.clone_from(&breakdown.passed_over);
        if let Some(partial) = &breakdown.partial {
            self.partial_calls += 1;
            self.partial = Some(partial.clone());
        }
        self.resolution_us = breakdown.resolution_us.clone();
        for (sum, us) in [
            (&mut self.wall_us, &breakdown.wall_us),
            (&mut self.compute_us, &breakdown.compute_us),
            (&mut self.tracer_us, &breakdown.tracer_us),
        ] {
            add(sum, us, first);
        }
        for category in SyscallCategory::ALL {
            let us = breakdown.us(category);
            let caller = breakdown.caller().filter(|_| us.value().is_some());
            add_usage(&mut self.syscalls, category, us, caller, first);
        }
        for thread in &breakdown.threads {
            self.thread(thread, breakdown);
        }
    }

    fn thread(&mut self, seen: &ThreadSyscalls, breakdown: &SyscallBreakdown) {
        let known = self.threads.iter().position(|known| known.tid == seen.tid);
        let index = known.unwrap_or_else(|| {
            self.threads.push(Thread {
                tid: seen.tid,
                name: None,
                as_caller: 0,
                cpu_us: unknown(),
                syscalls: BTreeMap::new(),
                waited_in: BTreeMap::new(),
            });
            self.threads.len() - 1
        });
        let thread = &mut self.threads[index];
        let first = known.is_none();
        thread.name = seen.name.clone().or(thread.name.take());
        thread.as_caller += u64::from(seen.is_caller);
        add(&mut thread.cpu_us, &seen.cpu_us, first);
        for category in SyscallCategory::ALL {
            let us = match breakdown.us(category) {
                Figure::Unavailable(why) => Figure::Unavailable(why.clone()),
                _ => derived(seen.of(category).us),
            };
            let calls = us.value().and(Some(seen));
            add_usage(&mut thread.syscalls, category, &us, calls, first);
        }
        if let Some(number) = seen.blocked_in {
            let name = syscall_name(number).map_or_else(|| number.to_string(), String::from);
            *thread.waited_in.entry(name).or_default() += 1;
        }
    }
}

fn unknown() -> Figure {
    Figure::unavailable("no call could be observed")
}

fn derived(value: f64) -> Figure {
    Figure::Derived {
        value,
        from: "observed times − what observing added to them",
    }
}

/// Adds what is known of a category; `of` has made the calls, if they were seen.
fn add_usage(
    sums: &mut BTreeMap<&'static str, Usage>,
    category: SyscallCategory,
    us: &Figure,
    of: Option<&ThreadSyscalls>,
    first: bool,
) {
    let calls = of.map(|thread| thread.of(category).calls);
    let sum = sums.entry(category.name()).or_insert(Usage {
        us: unknown(),
        calls: None,
    });
    add(&mut sum.us, us, first);
    sum.calls = if first {
        calls
    } else {
        sum.calls.zip(calls).map(|(sum, calls)| sum + calls)
    };
}

/// Adds a figure to a sum of which it is the `first`, or not. A sum of which a part is not known is not
/// known.
fn add(sum: &mut Figure, figure: &Figure, first: bool) {
    *sum = match (&*sum, figure) {
        (_, figure) if first => figure.clone(),
        (Figure::Unavailable(why), _) | (_, Figure::Unavailable(why)) => {
            Figure::Unavailable(why.clone())
        }
        (Figure::Measured(a), Figure::Measured(b)) => Figure::Measured(a + b),
        (Figure::Derived { value: a, from }, Figure::Derived { value: b, .. }) => {
            Figure::Derived { value: a + b, from }
        }
        (a, b) => derived(a.value().unwrap_or(f64::NAN) + b.value().unwrap_or(f64::NAN)),
    };
}
