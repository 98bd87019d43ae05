//! Which calls are escalated, and that those leave no trace in the statistics.
//!
//! In a process of its own: an escalated call pauses the recording of every thread.
#![cfg(all(feature = "visualization", feature = "tracer", target_os = "linux"))]
#![allow(missing_docs)]

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use brick_runtime::sink::{Exporter, Limits, Sink, SinkError};
use brick_runtime::span::{Resource, SpanRecord, TraceContext};
use brick_runtime::tracer::{
    BrickTracer, EscalationReason, EscalationThresholds, TraceBackend, TracedBrickResult,
};
use brick_runtime::{BrickInfo, BrickProfiler};
use common::{call, spin, stats};

/// One test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A brick of its own for each use, whose call takes as long as it is told.
macro_rules! brick {
    ($name:literal $(, $($builder:tt)*)?) => {{
        static INFO: BrickInfo =
            BrickInfo::new($name, module_path!(), "test", file!(), line!())$($($builder)*)?;
        static SITE: brick_runtime::__private::Site = brick_runtime::__private::Site::new(&INFO);
        (&INFO, |us| call(&SITE, || spin(Duration::from_micros(us))))
    }};
}

fn tracer() -> BrickTracer {
    BrickTracer::new().with_backend(TraceBackend::Cpu)
}

/// Calls through the tracer until one is escalated; how many were not before.
fn until_escalated(
    tracer: &BrickTracer,
    info: &'static BrickInfo,
    mut body: impl FnMut(),
) -> Option<(u32, TracedBrickResult<()>)> {
    let begin = Instant::now();
    let mut plain = 0;
    while begin.elapsed() < Duration::from_secs(5) {
        let traced = tracer.trace_info(info, 1, &mut body);
        if traced.escalation_reason.is_some() {
            return Some((plain, traced));
        }
        plain += 1;
    }
    None
}

#[test]
fn a_slow_brick_is_escalated_after_the_warm_up_and_left_out() {
    let _alone = alone();
    let (info, run) = brick!("Slow", .budget_ns(1_000));
    let tracer = tracer();
    let (plain, traced) = until_escalated(&tracer, info, || run(20)).expect("an escalated call");
    assert!(plain >= 30, "{plain} calls are too few to judge by");
    let Some(
        EscalationReason::LowEfficiency { efficiency } | EscalationReason::Both { efficiency, .. },
    ) = traced.escalation_reason
    else {
        panic!("{:?}", traced.escalation_reason);
    };
    // 1 µs of at least 20.
    assert!(efficiency > 0.0 && efficiency <= 0.05, "{efficiency}");
    assert!(traced.over_budget && traced.efficiency_score <= 0.05);
    let breakdown = traced
        .syscall_breakdown
        .expect("the backend that always works");
    assert!(
        breakdown.cpu_us.value().is_some_and(|us| us > 0.0),
        "{breakdown:?}"
    );
    assert_eq!(breakdown.futex_us.value(), None);
    // Every call but that one was recorded.
    assert_eq!(stats("Slow").unwrap().calls(), u64::from(plain));
    assert_eq!(tracer.counts().escalated, 1);
    assert!(tracer.counts().not_recorded >= 1);
    // One verdict, one call: the next verdict takes calls of its own.
    let next = tracer.trace_info(info, 1, || run(20));
    assert_eq!(next.escalation_reason, None);
}

#[test]
fn an_unstable_brick_is_escalated_and_a_steady_one_is_not() {
    let _alone = alone();
    let (info, run) = brick!("Unstable");
    let mut n = 0;
    let unstable = until_escalated(&tracer(), info, || {
        n += 1;
        run(if n % 4 == 0 { 400 } else { 20 });
    });
    let reason = unstable.expect("an escalated call").1.escalation_reason;
    let Some(EscalationReason::UnstableTiming { cv }) = reason else {
        panic!("{reason:?}");
    };
    // Of 20, 20, 20 and 400 it is 1.43; whatever interrupts a call makes it another.
    assert!(cv > 0.15 && cv.is_finite(), "{cv}");

    // Nothing can disturb a limit that high.
    let steady = EscalationThresholds {
        cv: f64::INFINITY,
        ..EscalationThresholds::default()
    };
    let tracer = BrickTracer::with_thresholds(steady).with_backend(TraceBackend::Cpu);
    let (info, run) = brick!("WithinBudget", .budget_ns(1_000_000_000));
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(350) {
        let traced = tracer.trace_info(info, 1_000_000, || run(100));
        assert_eq!(traced.escalation_reason, None);
        assert!(!traced.over_budget && traced.efficiency_score > 1.0);
    }
    assert_eq!(tracer.counts().escalated, 0);
}

#[test]
fn the_rate_limits_only_those_that_are_past_a_threshold() {
    let tracer = tracer();
    for _ in 0..1000 {
        assert!(!tracer.should_trace(0.1, 0.5));
    }
    assert_eq!(tracer.counts().rate_limited, 0);
    let begin = Instant::now();
    let traced = (0..100_000)
        .filter(|_| tracer.should_trace(0.2, 0.5))
        .count();
    let most = 1.0 + 100.0 * begin.elapsed().as_secs_f64();
    assert!(traced >= 1 && traced as f64 <= most, "{traced} of {most}");
    assert_eq!(tracer.counts().rate_limited, 100_000 - traced as u64);
}

/// What is around an escalated call has its time, but not as its own.
#[test]
fn the_pause_is_no_self_time_of_what_is_around() {
    let _alone = alone();
    static OUTER: BrickInfo = BrickInfo::new("Around", module_path!(), "test", file!(), line!());
    static SITE: brick_runtime::__private::Site = brick_runtime::__private::Site::new(&OUTER);
    let (info, run) = brick!("Within");
    let tracer = tracer();
    call(&SITE, || tracer.trace_now(info, 1, || run(20_000)));
    let around = stats("Around").unwrap();
    assert!(around.total_ns() >= 20e6 && around.self_ns() < 0.5 * around.total_ns());
    assert!(stats("Within").is_none());
}

#[test]
fn a_panic_comes_through_and_recording_goes_on() {
    let _alone = alone();
    let (info, run) = brick!("Panics");
    let tracer = tracer();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tracer.trace_now(info, 1, || -> () {
            std::panic::resume_unwind(Box::new("on purpose"))
        })
    }));
    assert_eq!(
        *result.unwrap_err().downcast::<&str>().unwrap(),
        "on purpose"
    );
    assert!(BrickProfiler::global().is_enabled());
    run(1);
    assert_eq!(stats("Panics").unwrap().calls(), 1);
    let again = tracer.trace_now(info, 1, || 7);
    assert_eq!(
        (again.result, again.escalation_reason),
        (7, Some(EscalationReason::Requested))
    );
}

/// Takes spans once it is let.
struct Gate(Receiver<()>, Sender<SpanRecord>);

impl Sink for Gate {
    fn export(&mut self, spans: &[SpanRecord], _: Duration) -> Result<(), SinkError> {
        let _ = self.0.recv();
        for span in spans {
            self.1.send(span.clone()).unwrap();
        }
        Ok(())
    }
}

/// The id is that of a span which is sent; where there is no room for one, there is none.
#[test]
fn a_span_that_is_sent_has_the_id_that_is_returned() {
    let _alone = alone();
    let (info, run) = brick!("Sent");
    let (open, gate) = channel();
    let (spans, sent) = channel();
    let limits = Limits {
        high: 2,
        low: 1,
        batch: 1,
        ..Limits::default()
    };
    let exporter = Arc::new(Exporter::start(Gate(gate, spans), limits).unwrap());
    let context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let context: TraceContext = context.parse().unwrap();
    let resource = Resource::detect("test");
    let tracer = tracer().with_spans(Arc::clone(&exporter), resource, Some(context));
    let before = SystemTime::now();
    let ids: Vec<Option<String>> = (0..8)
        .map(|_| tracer.trace_now(info, 5, || run(1000)).otlp_span_id)
        .collect();
    drop((open, tracer));
    let report = Arc::into_inner(exporter)
        .unwrap()
        .finish(Duration::from_secs(60));
    let sent: Vec<SpanRecord> = sent.try_iter().collect();
    let arrived: Vec<_> = sent.iter().map(|span| span.span_id.to_string()).collect();
    let returned: Vec<String> = ids.into_iter().flatten().collect();
    assert_eq!(arrived, returned);
    assert!(!arrived.is_empty() && arrived.len() < 8, "{arrived:?}");
    assert_eq!(report.refused, 8 - arrived.len() as u64);
    let ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    for span in sent {
        assert_eq!(span.trace_id, context.trace_id);
        assert_eq!(span.parent_span_id, Some(context.span_id));
        // The call, not what it takes to begin and to end it.
        assert!(span.duration_ns() >= 1_000_000);
        assert!(ns(before) <= span.start_unix_ns && span.end_unix_ns <= ns(SystemTime::now()));
    }
}

#[test]
fn an_exporter_gets_each_escalated_call_and_its_id_is_returned() {
    let _alone = alone();
    let (info, run) = brick!("Exported");
    let tracer = tracer().with_exporter(|call| {
        assert!(call.start <= call.end);
        Some(format!("{} {}", call.brick.name, call.breakdown?.backend))
    });
    let traced = tracer.trace_now(info, 5, || run(1));
    assert_eq!(traced.otlp_span_id.as_deref(), Some("Exported cpu"));
    let inner = tracer.trace_now(info, 5, || tracer.trace_now(info, 5, || 1).no_breakdown);
    assert_eq!(
        inner.result.as_deref(),
        Some("another call was being escalated")
    );
    assert_eq!(tracer.counts().busy, 1);
}
