//! Every call is counted once: on many threads, on threads that end, in rayon, while others look.
#![cfg(feature = "visualization")]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use brick_runtime::BrickProfiler;
use common::{call, of, spin, stats};
use rayon::prelude::*;

/// Calls per thread: not a multiple of anything in the runtime. Miri is slow.
const CALLS: u64 = if cfg!(miri) { 131 } else { 10_007 };

/// How long to go on with something that takes as long as other programs on the machine let it.
const LONG: Duration = Duration::from_secs(2);

#[test]
fn threads_of_any_number_are_counted_exactly() {
    let site = site!("threads");
    let mut expected = 0;
    for threads in if cfg!(miri) {
        vec![3]
    } else {
        vec![2, 3, 8, 64]
    } {
        let barrier = Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..CALLS {
                        site.open().flops(1u64).start().exit();
                    }
                });
            }
        });
        expected += threads as u64 * CALLS;
        let brick = stats("threads").unwrap();
        // The scope ends when the closures have; thread-locals may go later: no difference.
        assert_eq!((brick.calls(), brick.flops()), (expected, expected));
    }
}

#[test]
fn ended_threads_leave_their_counts_and_their_slab() {
    let site = site!("ended");
    for round in 1..=if cfg!(miri) { 3 } else { 20 } {
        std::thread::spawn(move || (0..50).for_each(|_| call(site, || ())))
            .join()
            .unwrap();
        assert_eq!(stats("ended").unwrap().calls(), round * 50);
    }
}

/// A snapshot taken in the middle never loses a call that ended before, and never invents one.
#[test]
#[cfg_attr(
    miri,
    ignore = "at Miri's speed a reader has no chance; tests/model.rs is of this"
)]
fn snapshots_under_load_are_between_before_and_after() {
    static STARTED: AtomicU64 = AtomicU64::new(0);
    static ENDED: AtomicU64 = AtomicU64::new(0);
    let (outer, inner) = (site!("load"), site!("load inner"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(SeqCst) {
                    STARTED.fetch_add(1, SeqCst);
                    call(outer, || call(inner, || ()));
                    ENDED.fetch_add(1, SeqCst);
                }
            });
        }
        let (mut last, begin) = (0, Instant::now());
        // A thread that is preempted in a fold keeps a reader waiting: as many as there is time for.
        for _ in (0..500).take_while(|i| *i < 3 || begin.elapsed() < LONG) {
            let before = ENDED.load(SeqCst);
            let snapshot = BrickProfiler::global().snapshot();
            let after = STARTED.load(SeqCst);
            let calls = of(&snapshot, "load").map_or(0, |brick| brick.calls());
            assert!(
                (before..=after).contains(&calls),
                "{calls} is not in {before}..={after}"
            );
            assert!(calls >= last);
            last = calls;
        }
        stop.store(true, SeqCst);
    });
    let snapshot = BrickProfiler::global().snapshot();
    let (outer, inner) = (
        of(&snapshot, "load").unwrap(),
        of(&snapshot, "load inner").unwrap(),
    );
    assert_eq!(
        (outer.calls(), inner.calls()),
        (ENDED.load(SeqCst), ENDED.load(SeqCst))
    );
}

/// What a brick hands to the pool is counted there, and is not the brick's child.
#[test]
#[cfg_attr(miri, ignore = "rayon's pool leaks its threads")]
fn rayon_work_is_its_own() {
    let (outer, task) = (site!("rayon outer"), site!("rayon task"));
    let sum: u64 = call(outer, || {
        (0..10_000u64)
            .into_par_iter()
            .map(|i| call(task, || i))
            .sum()
    });
    assert_eq!(sum, 10_000 * 9_999 / 2);
    let snapshot = BrickProfiler::global().snapshot();
    assert_eq!(of(&snapshot, "rayon task").unwrap().calls(), 10_000);
    let outer = of(&snapshot, "rayon outer").unwrap();
    // Nothing ran on this thread but the wait for the pool.
    assert!((outer.self_ns() - outer.total_ns()).abs() < 1.0);
}

/// A call on a thread whose slab is gone already: not recorded, and told.
#[test]
fn calls_in_late_destructors_are_told() {
    struct Late(&'static brick_runtime::__private::Site);
    impl Drop for Late {
        fn drop(&mut self) {
            call(self.0, || ());
        }
    }
    thread_local! {
        // Made before the first brick, so destroyed after the runtime's own thread-local.
        static LATE: Late = const { Late(site!("late")) };
    }
    let before = BrickProfiler::global().snapshot().dropped();
    std::thread::spawn(|| {
        LATE.with(|late| call(late.0, || ()));
    })
    .join()
    .unwrap();
    let after = BrickProfiler::global().snapshot();
    let recorded = of(&after, "late").unwrap().calls();
    assert_eq!(recorded + (after.dropped() - before), 2);
}

/// The clock of one call may be read on a thread that sleeps: others' calls go on meanwhile.
#[test]
fn a_long_call_is_counted_when_it_ends() {
    let site = site!("long");
    let running = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            call(site, || {
                running.wait();
                spin(Duration::from_millis(5));
                running.wait();
            })
        });
        running.wait();
        assert!(stats("long").is_none());
        running.wait();
    });
    assert!(stats("long").unwrap().total_ns() >= 5e6 * 0.999);
}
