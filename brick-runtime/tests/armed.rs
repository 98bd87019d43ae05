//! A tracer that escalates annotated functions by itself, wherever they are called.
//!
//! In a process of its own: an armed tracer sees all bricks.
#![cfg(all(feature = "visualization", feature = "tracer", target_os = "linux"))]
#![allow(missing_docs)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use brick_runtime::tracer::{
    Armed, BrickTracer, EscalatedCall, EscalationThresholds, SyscallCategory, TraceBackend,
};
use brick_runtime::{BrickInfo, BrickProfiler};
use common::{call, spin, stats};

/// One test at a time, for there is one armed tracer at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

macro_rules! brick {
    ($name:literal, $budget_ns:literal) => {{
        static INFO: BrickInfo =
            BrickInfo::new($name, module_path!(), "test", file!(), line!()).budget_ns($budget_ns);
        static SITE: brick_runtime::__private::Site = brick_runtime::__private::Site::new(&INFO);
        &SITE
    }};
}

/// What an exporter was shown.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    brick: &'static str,
    reason: &'static str,
    budget_us: Option<f64>,
    duration_us: f64,
    backend: Option<TraceBackend>,
    reads: Option<u64>,
}

type Seen = Arc<Mutex<Vec<Shown>>>;

/// Escalates only what is too slow: how much the time varies depends on what else the machine does.
fn tracer(backend: Option<TraceBackend>) -> (Arc<BrickTracer>, Seen) {
    let seen = Seen::default();
    let all = Arc::clone(&seen);
    let thresholds = EscalationThresholds {
        cv: f64::INFINITY,
        ..EscalationThresholds::default()
    };
    let tracer = BrickTracer::with_thresholds(thresholds);
    let tracer = match backend {
        Some(backend) => tracer.with_backend(backend),
        None => tracer,
    };
    let tracer = tracer.with_exporter(move |call: &EscalatedCall<'_>| {
        let caller = call.breakdown.and_then(|breakdown| breakdown.caller());
        all.lock().unwrap().push(Shown {
            brick: call.brick.name,
            reason: call.reason.name(),
            budget_us: call.budget_us,
            duration_us: call.duration_us,
            backend: call.breakdown.map(|breakdown| breakdown.backend),
            reads: caller.map(|caller| caller.of(SyscallCategory::Read).calls),
        });
        None
    });
    (Arc::new(tracer), seen)
}

/// Looks and runs `body` until `n` calls were escalated; how often it ran.
fn until(armed: &Armed, seen: &Seen, n: usize, mut body: impl FnMut()) -> u64 {
    let begin = Instant::now();
    let mut runs = 0;
    while seen.lock().unwrap().len() < n {
        assert!(begin.elapsed() < Duration::from_secs(20), "{seen:?}");
        armed.look();
        body();
        runs += 1;
    }
    runs
}

#[test]
fn a_slow_brick_is_escalated_where_it_is_called_and_left_out() {
    let _alone = alone();
    let (outer, slow, fast) = (
        brick!("ArmedOuter", 1_000_000_000),
        brick!("ArmedSlow", 10_000),
        brick!("ArmedFast", 1_000_000_000),
    );
    let (tracer, seen) = tracer(Some(TraceBackend::Cpu));
    let armed = tracer.arm().expect("nobody else is armed");
    assert!(tracer.arm().is_none(), "one at a time");
    let (begin, paused) = (Instant::now(), tracer.counts().paused_ns);
    let runs = until(&armed, &seen, 3, || {
        call(outer, || {
            call(slow, || {
                call(fast, || spin(Duration::from_micros(50)));
                spin(Duration::from_micros(200));
            });
        });
    });
    let seen = seen.lock().unwrap().clone();
    for shown in &seen {
        assert_eq!(
            (shown.brick, shown.reason, shown.budget_us, shown.backend),
            (
                "ArmedSlow",
                "low_efficiency",
                Some(10.0),
                Some(TraceBackend::Cpu)
            )
        );
        assert!(shown.duration_us >= 250.0, "{shown:?}");
    }
    // Whatever is around an escalated call is counted, the call and what is in it are not.
    assert_eq!(stats("ArmedOuter").unwrap().calls(), runs);
    assert_eq!(stats("ArmedSlow").unwrap().calls(), runs - 3);
    assert_eq!(stats("ArmedFast").unwrap().calls(), runs - 3);
    assert_eq!(tracer.counts().escalated, 3);
    // Nothing was recorded while they ran, and for no longer than this test took.
    let paused_us = (tracer.counts().paused_ns - paused) as f64 / 1e3;
    let ran_us: f64 = seen.iter().map(|shown| shown.duration_us).sum();
    assert!(paused_us >= ran_us && paused_us < begin.elapsed().as_secs_f64() * 1e6);
    // And the time of it is no time of what is around.
    let outer = stats("ArmedOuter").unwrap();
    assert!(outer.self_ns() < 0.2 * outer.total_ns(), "{outer:?}");
}

#[test]
fn nothing_is_escalated_that_nobody_looks_at_or_that_keeps_its_budget() {
    let _alone = alone();
    let (good, late) = (
        brick!("ArmedGood", 1_000_000_000),
        brick!("ArmedLate", 1_000),
    );
    let (tracer, seen) = tracer(Some(TraceBackend::Cpu));
    let armed = tracer.arm().unwrap();
    let run = |site: &'static _, us| {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(250) {
            call(site, || spin(Duration::from_micros(us)));
        }
    };
    for _ in 0..3 {
        armed.look();
        run(good, 20);
    }
    // Slow, but not looked at.
    run(late, 20);
    assert_eq!(*seen.lock().unwrap(), []);
    armed.look();
    run(late, 20);
    assert_eq!(seen.lock().unwrap().len(), 1);
    drop(armed);
    let (tracer, seen) = self::tracer(Some(TraceBackend::Cpu));
    drop(tracer.arm().unwrap());
    run(late, 20);
    assert_eq!(*seen.lock().unwrap(), []);
}

/// The verdict on a brick that is called no more does not wait for ever, for it slows all others down.
#[test]
fn a_verdict_is_for_the_calls_until_the_next_look() {
    let _alone = alone();
    let gone = brick!("ArmedGone", 1_000);
    let (tracer, seen) = tracer(Some(TraceBackend::Cpu));
    let armed = tracer.arm().unwrap();
    let pause = Duration::from_millis(120);
    for _ in 0..40 {
        call(gone, || spin(Duration::from_micros(20)));
    }
    armed.look();
    std::thread::sleep(pause);
    armed.look();
    call(gone, || spin(Duration::from_micros(20)));
    assert_eq!(*seen.lock().unwrap(), []);
    for _ in 0..40 {
        call(gone, || spin(Duration::from_micros(20)));
    }
    std::thread::sleep(pause);
    armed.look();
    call(gone, || spin(Duration::from_micros(20)));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn a_panic_comes_through_an_escalated_call() {
    let _alone = alone();
    let panics = brick!("ArmedPanics", 1_000);
    let (tracer, seen) = tracer(Some(TraceBackend::Cpu));
    let armed = tracer.arm().unwrap();
    let mut fails = false;
    let mut escalated_panics = 0;
    let begin = Instant::now();
    while escalated_panics == 0 {
        assert!(begin.elapsed() < Duration::from_secs(20));
        armed.look();
        let before = tracer.counts().escalated;
        let result = catch_unwind(AssertUnwindSafe(|| {
            call(panics, || {
                spin(Duration::from_micros(20));
                fails = tracer.counts().escalated > before;
                if fails {
                    resume_unwind(Box::new("on purpose"));
                }
            });
        }));
        if let Err(payload) = result {
            assert_eq!(*payload.downcast::<&str>().unwrap(), "on purpose");
            escalated_panics += 1;
        }
    }
    // It is nobody's result, and the next one is looked at as ever.
    assert_eq!(*seen.lock().unwrap(), []);
    assert!(BrickProfiler::global().is_enabled());
    let calls = || stats("ArmedPanics").unwrap().calls();
    let before = calls();
    call(panics, || spin(Duration::from_micros(20)));
    assert_eq!(calls(), before + 1);
    until(&armed, &seen, 1, || {
        call(panics, || spin(Duration::from_micros(20)))
    });
}

/// With the best backend that there is, on a thread of a pool.
#[test]
fn system_calls_of_a_pool_thread_are_its_own() {
    let _alone = alone();
    let reads = brick!("ArmedReads", 1_000);
    let (tracer, seen) = tracer(None);
    let armed = tracer.arm().unwrap();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    until(&armed, &seen, 1, || {
        pool.install(|| {
            call(reads, || {
                for _ in 0..7 {
                    let zero = std::fs::File::open("/dev/zero").unwrap();
                    std::io::Read::read_exact(&mut &zero, &mut [0; 4096]).unwrap();
                }
            });
        });
    });
    let seen = seen.lock().unwrap();
    match seen[0].backend {
        Some(TraceBackend::Perf | TraceBackend::Ptrace) => assert_eq!(seen[0].reads, Some(7)),
        backend => eprintln!("calls were not counted, with {backend:?}"),
    }
}
