//! What threads wait for each other, against hand-made timings inside and around.
#![cfg(feature = "visualization")]

mod common;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use brick_runtime::{Barrier, BrickProfiler, BrickStats, Figure};
use common::{call, spin, stats};

/// The clock's rate is measured, too.
const LEAST: f64 = 0.999;
const MOST: f64 = 1.001;

/// One test at a time: the profiler is one for the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Times in nanoseconds, taken inside of what is measured and around it.
#[derive(Default)]
struct Taken {
    inside: f64,
    around: f64,
}

impl Taken {
    fn add(&mut self, other: Taken) {
        self.inside += other.inside;
        self.around += other.around;
    }
}

fn ns(since: Instant) -> f64 {
    since.elapsed().as_nanos() as f64
}

/// Works on its share for `us` microseconds.
fn share(barrier: &Barrier, us: u64) -> Taken {
    let around = Instant::now();
    let working = barrier.work();
    let inside = Instant::now();
    spin(Duration::from_micros(us));
    let inside = ns(inside);
    drop(working);
    Taken {
        inside,
        around: ns(around),
    }
}

/// Two threads share work, this one for 3 ms, the other for 1: what they worked, and how long it took.
fn fork_and_join() -> (Taken, Taken) {
    let around = Instant::now();
    let barrier = Barrier::fork(2);
    let inside = Instant::now();
    let mut worked = Taken::default();
    thread::scope(|scope| {
        let other = scope.spawn(|| share(&barrier, 1000));
        worked.add(share(&barrier, 3000));
        worked.add(other.join().unwrap());
    });
    let inside = ns(inside);
    drop(barrier);
    let took = Taken {
        inside,
        around: ns(around),
    };
    (worked, took)
}

fn assert_between(brick: &BrickStats, worked: &Taken, took: &Taken) {
    let (shared, waited) = (brick.shared_ns(), brick.waited_ns());
    assert!(shared >= 2.0 * took.inside * LEAST, "{shared}");
    assert!(shared <= 2.0 * took.around * MOST, "{shared}");
    let here = shared - waited;
    assert!(here >= worked.inside * LEAST, "{here} < {}", worked.inside);
    assert!(here <= worked.around * MOST, "{here} > {}", worked.around);
    let Figure::Derived { value, .. } = brick.wait_share() else {
        panic!("{:?}", brick.wait_share());
    };
    // Nanoseconds are rounded once each, counts of ticks are not.
    assert!((value - waited / shared).abs() < 1e-12, "{value}");
    // One thread worked for 3 ms at least, the other for less than the whole.
    assert!(value > 0.0 && value < 1.0, "{value}");
}

/// Of what is called too, as times are; and of nobody who is not on the way there.
#[test]
fn waiting_is_that_of_every_open_brick() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (outer, inner) = (site!("shares from outside"), site!("shares"));
    let (before, after) = (site!("before"), site!("waits for nobody"));
    let (mut worked, mut took) = (Taken::default(), Taken::default());
    for _ in 0..5 {
        call(outer, || {
            call(before, || ());
            call(inner, || {
                let (w, t) = fork_and_join();
                worked.add(w);
                took.add(t);
            });
            call(after, || ());
        });
    }
    assert_between(&stats("shares").unwrap(), &worked, &took);
    assert_between(&stats("shares from outside").unwrap(), &worked, &took);
    for name in ["before", "waits for nobody"] {
        let brick = stats(name).unwrap();
        assert_eq!((brick.shared_ns(), brick.waited_ns()), (0.0, 0.0));
        assert!(matches!(brick.wait_share(), Figure::Unavailable(_)));
    }
    // Only where there is something to show.
    let profiler = BrickProfiler::global();
    let table = profiler.snapshot().table().to_string();
    assert!(table.contains("wait %"), "{table}");
    let since = profiler.snapshot().since(&profiler.snapshot());
    assert!(!since.table().to_string().contains("wait %"));
}

#[test]
fn outside_of_all_bricks_and_while_nothing_is_recorded_it_is_nobodys() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    fork_and_join();
    let site = site!("shares in secret");
    call(site, || ());
    let profiler = BrickProfiler::global();
    profiler.disable();
    call(site, || {
        fork_and_join();
    });
    profiler.enable();
    let brick = stats("shares in secret").unwrap();
    assert_eq!((brick.calls(), brick.shared_ns()), (1, 0.0));
}
