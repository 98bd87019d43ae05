//! Statistics against hand-made timings and naive arithmetic.
#![cfg(feature = "visualization")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use brick_runtime::{BrickProfiler, Figure, layer_scope};
use common::{call, of, spin, stats};

const US: Duration = Duration::from_micros(1);

/// Inside of a hand-made timing around it, and not by much.
#[test]
fn durations_are_those_of_the_operating_system() {
    let site = site!("durations");
    let mut outside = Vec::new();
    for i in 0..200u32 {
        let begin = Instant::now();
        call(site, || spin(US * (20 + i)));
        outside.push(begin.elapsed().as_nanos() as f64);
    }
    let brick = stats("durations").unwrap();
    let inside: f64 = (0..200).map(|i| f64::from(20 + i) * 1e3).sum();
    let total: f64 = outside.iter().sum();
    assert_eq!(
        (brick.calls(), brick.timed_calls(), brick.panics()),
        (200, 200, 0)
    );
    // 0.1 %: the rate of the clock is measured, too.
    assert!(
        brick.total_ns() > inside * 0.999,
        "{} < {inside}",
        brick.total_ns()
    );
    assert!(
        brick.total_ns() < total * 1.001,
        "{} > {total}",
        brick.total_ns()
    );
    assert!(brick.min_ns().unwrap() >= 20e3 * 0.999);
    outside.sort_by(f64::total_cmp);
    assert!(brick.max_ns().unwrap() <= outside[199] * 1.001);
    for rank in [1, 100, 180, 190, 198, 200] {
        // Each call took no less than it span, and no more than the time around it: so do ranks.
        let brick = brick.percentile(rank as f64 / 200.0).unwrap();
        assert!(
            brick.low_ns <= outside[rank - 1] * 1.001,
            "rank {rank}: {brick:?}"
        );
        assert!(
            brick.high_ns >= (19 + rank) as f64 * 999.0,
            "rank {rank}: {brick:?}"
        );
        assert!(brick.high_ns - brick.low_ns <= brick.low_ns * 0.0626);
    }
}

#[test]
fn children_are_subtracted_from_self_time() {
    let (parent, child, leaf) = (
        site!("self parent"),
        site!("self child"),
        site!("self leaf"),
    );
    for _ in 0..20 {
        call(parent, || {
            spin(US * 100);
            for _ in 0..3 {
                call(child, || {
                    spin(US * 40);
                    call(leaf, || spin(US * 30));
                });
            }
        });
    }
    let snapshot = BrickProfiler::global().snapshot();
    let get = |name| of(&snapshot, name).unwrap();
    let (parent, child, leaf) = (get("self parent"), get("self child"), get("self leaf"));
    let near = |what: &str, ns: f64, us: f64| {
        // Preemption may add time, nothing may take any away.
        assert!(ns >= us * 999.0, "{what}: {ns} ns for {us} µs");
    };
    near("leaf", leaf.self_ns(), 20.0 * 3.0 * 30.0);
    near("child", child.self_ns(), 20.0 * 3.0 * 40.0);
    near("parent", parent.self_ns(), 20.0 * 100.0);
    // Exactly: inclusive time is own time and that of the children; folds are nobody's.
    let folds = snapshot.cost().folds.total_ns;
    assert!((leaf.total_ns() - leaf.self_ns()).abs() < 1.0);
    for (caller, callee) in [(&child, &leaf), (&parent, &child)] {
        let left = caller.total_ns() - caller.self_ns() - callee.total_ns();
        assert!(
            (-1.0..=folds + 1.0).contains(&left),
            "{left} ns are nobody's, {folds} ns in folds"
        );
    }
    assert!(child.total_ns() - child.self_ns() >= leaf.total_ns() - 1.0);
}

#[test]
fn recursion_is_timed_once_and_owned_by_all() {
    fn down(site: &'static brick_runtime::__private::Site, depth: u32) {
        call(site, || {
            spin(US * 10);
            if depth > 0 {
                down(site, depth - 1);
            }
        });
    }
    let site = site!("recursion");
    let begin = Instant::now();
    for _ in 0..10 {
        down(site, 4);
    }
    let wall = begin.elapsed().as_nanos() as f64;
    let brick = stats("recursion").unwrap();
    assert_eq!(
        (brick.calls(), brick.timed_calls(), brick.recursive()),
        (50, 10, 40)
    );
    assert!(brick.total_ns() >= 10.0 * 50e3 * 0.999 && brick.total_ns() <= wall * 1.001);
    assert!(brick.self_ns() <= brick.total_ns() + 1.0);
    assert!(brick.self_ns() >= 10.0 * 50e3 * 0.999);
}

#[test]
fn a_panic_ends_a_call() {
    let (outer, inner) = (site!("panic outer"), site!("panic inner"));
    for _ in 0..3 {
        let result = catch_unwind(AssertUnwindSafe(|| {
            call(outer, || {
                call(inner, || {
                    spin(US * 10);
                    std::panic::resume_unwind(Box::new("thrown"));
                })
            })
        }));
        assert!(result.is_err());
    }
    call(outer, || ());
    let (outer, inner) = (stats("panic outer").unwrap(), stats("panic inner").unwrap());
    assert_eq!(
        (outer.calls(), outer.panics(), outer.recursive()),
        (4, 3, 0)
    );
    assert_eq!((inner.calls(), inner.panics()), (3, 3));
    assert!(inner.total_ns() >= 30e3 * 0.999);
}

/// Against the textbook two-pass formula over the durations that a difference of snapshots tells.
#[test]
fn standard_deviation_is_the_textbooks() {
    let site = site!("deviation");
    let mut single = Vec::new();
    let mut before = BrickProfiler::global().snapshot();
    for i in 0..40 {
        call(site, || spin(US * (5 + 7 * (i % 5))));
        let after = BrickProfiler::global().snapshot();
        single.push(of(&after.since(&before), "deviation").unwrap().total_ns());
        before = after;
    }
    let brick = of(&before, "deviation").unwrap();
    let mean = single.iter().sum::<f64>() / 40.0;
    let std = (single.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 39.0).sqrt();
    assert!((brick.mean_ns().unwrap() / mean - 1.0).abs() < 1e-3);
    assert!(
        (brick.std_ns().unwrap() / std - 1.0).abs() < 1e-3,
        "{:?} for {std}",
        brick.std_ns()
    );
    assert!((brick.cv().unwrap() / (std / mean) - 1.0).abs() < 1e-3);
}

#[test]
fn declared_work_is_summed_and_rated() {
    let site = site!("work", .budget_ns(50_000));
    for i in 0..100u64 {
        let guard = site
            .open()
            .flops(1000 * i)
            .bytes(64u32)
            .tokens(1usize)
            .elements(3i32)
            .start();
        spin(US * 100);
        guard.exit();
    }
    let brick = stats("work").unwrap();
    assert_eq!(
        (
            brick.flops(),
            brick.bytes(),
            brick.tokens(),
            brick.elements()
        ),
        (4_950_000, 6400, 100, 300)
    );
    assert_eq!(brick.over_budget(), 100);
    let efficiency = brick.efficiency().value().unwrap();
    assert!(
        (efficiency * brick.total_ns() / (100.0 * 50e3) - 1.0).abs() < 1e-9,
        "{efficiency}"
    );
    let gflops = brick.gflop_per_s();
    assert!(matches!(gflops, Figure::Derived { .. }));
    assert!((gflops.value().unwrap() * brick.total_ns() - 4_950_000.0).abs() < 1.0);
    assert_eq!(brick.flop_per_byte().value(), Some(4_950_000.0 / 6400.0));
    assert_eq!(stats("durations").and_then(|b| b.gb_per_s().value()), None);
}

#[test]
fn a_budget_per_call_is_each_calls_own() {
    let site = site!("own budget", .budget_expr("us"));
    for us in [1.0f64, 1e6, 1.0, 1e6, 1e6] {
        let guard = site.open().budget_us(us).start();
        spin(US * 20);
        guard.exit();
    }
    let brick = stats("own budget").unwrap();
    assert_eq!((brick.calls(), brick.over_budget()), (5, 2));
    let expected = 3_000_002e3 / brick.total_ns();
    assert!((brick.efficiency().value().unwrap() / expected - 1.0).abs() < 1e-3);
}

#[test]
fn layers_hold_what_ran_in_them() {
    let (attention, norm) = (site!("layered"), site!("layered inner"));
    for layer in [0u64, 1, 1, 126, 127, 4000] {
        let _layer = layer_scope(layer);
        call(attention, || call(norm, || spin(US)));
    }
    call(attention, || ());
    let guard = attention.open().layer(7u32).start();
    call(norm, || ());
    guard.exit();
    for name in ["layered", "layered inner"] {
        let rows: Vec<_> = stats(name)
            .unwrap()
            .layers()
            .map(|l| (l.layer, l.and_above, l.time.count))
            .collect();
        assert_eq!(
            rows,
            [
                (0, false, 1),
                (1, false, 2),
                (7, false, 1),
                (126, false, 1),
                (127, true, 2)
            ]
        );
    }
    assert_eq!(brick_runtime::current_layer(), None);
}
