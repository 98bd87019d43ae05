//! Reset, difference, enable and disable: the process's state, so one test at a time.
#![cfg(feature = "visualization")]

mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use brick_runtime::{BrickProfiler, Device, SyncMode, layer_scope};
use common::{call, of, spin, stats};

/// Enough that some are folded; Miri is slow.
const CALLS: u64 = if cfg!(miri) { 125 } else { 1000 };

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn reset_forgets_and_the_open_call_ends_after_it() {
    let _alone = alone();
    let profiler = BrickProfiler::global();
    let (outer, inner) = (site!("reset outer"), site!("reset inner"));
    profiler.add_tokens(7);
    call(outer, || {
        for _ in 0..CALLS {
            call(inner, || spin(Duration::from_micros(1000 / CALLS)));
        }
        profiler.reset();
        assert!(stats("reset inner").is_none());
        assert_eq!(profiler.total_tokens(), 0);
        call(inner, || ());
    });
    let snapshot = profiler.snapshot();
    let (outer, inner) = (
        of(&snapshot, "reset outer").unwrap(),
        of(&snapshot, "reset inner").unwrap(),
    );
    assert_eq!((outer.calls(), inner.calls()), (1, 1));
    // Its children from before the reset are still not its own time.
    assert!(outer.total_ns() >= 1e6);
    assert!(outer.self_ns() <= outer.total_ns() - 1e6 * 0.999);
    assert!((snapshot.total_ns() as f64) < outer.total_ns());
}

/// Calls that are made after a reset has returned, as told by the program's own order, are never
/// forgotten, and those that ended before it began always are.
#[test]
#[cfg_attr(
    miri,
    ignore = "at Miri's speed a reader has no chance; tests/model.rs is of this"
)]
fn resets_under_load_cut_once() {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let _alone = alone();
    let profiler = BrickProfiler::global();
    let site = site!("reset load");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                call(site, || ());
                DONE.fetch_add(1, SeqCst);
            }
        });
        let begin = std::time::Instant::now();
        let long = Duration::from_secs(2);
        for _ in (0..300).take_while(|i| *i < 3 || begin.elapsed() < long) {
            let before = DONE.load(SeqCst);
            profiler.reset();
            let cut = DONE.load(SeqCst);
            let calls = stats("reset load").map_or(0, |brick| brick.calls());
            let after = DONE.load(SeqCst) + 1;
            // Between: what came while the reset ran may be on either side.
            assert!(calls <= after - before, "{calls} of {}", after - before);
            assert!(calls <= after && cut >= before);
        }
        stop.store(true, SeqCst);
    });
    profiler.reset();
    for _ in 0..50 {
        call(site, || ());
    }
    assert_eq!(stats("reset load").unwrap().calls(), 50);
}

#[test]
fn disabled_nothing_is_recorded_and_the_wall_stands_still() {
    let _alone = alone();
    let profiler = BrickProfiler::global();
    let site = site!("disabled");
    for _ in 0..10 {
        call(site, || ());
    }
    profiler.disable();
    assert!(!profiler.is_enabled());
    let wall = profiler.total_ns();
    for _ in 0..1000 {
        call(site, || spin(Duration::from_micros(2)));
    }
    assert_eq!(profiler.total_ns(), wall);
    // Disabled in the middle of a call: that one is still recorded.
    profiler.enable();
    call(site, || profiler.disable());
    profiler.enable();
    assert_eq!(stats("disabled").unwrap().calls(), 11);
    spin(Duration::from_millis(1));
    assert!(profiler.total_ns() >= wall + 1_000_000);
}

#[test]
fn a_difference_is_what_came_between() {
    let _alone = alone();
    let profiler = BrickProfiler::global();
    let (old, new) = (site!("diff old"), site!("diff new"));
    for _ in 0..100 {
        call(old, || spin(Duration::from_micros(50)));
    }
    let before = profiler.snapshot();
    for _ in 0..30 {
        call(old, || spin(Duration::from_micros(5)));
        call(new, || ());
    }
    profiler.add_tokens(12);
    let difference = profiler.snapshot().since(&before);
    let (old, new) = (
        of(&difference, "diff old").unwrap(),
        of(&difference, "diff new").unwrap(),
    );
    assert_eq!(
        (old.calls(), new.calls(), difference.total_tokens()),
        (30, 30, 12)
    );
    assert_eq!((old.min_ns(), old.max_ns()), (None, None));
    assert!(new.min_ns().is_some());
    assert!(old.p50_ns().unwrap() < 50e3 && old.p50_ns().unwrap() >= 5e3 * 0.93);
    assert!(difference.find(|info| info.name == "disabled").is_none());
}

/// Counts how often it is waited for, and takes a while.
struct Counting(&'static AtomicU64);

impl Device for Counting {
    fn synchronize(&self) {
        self.0.fetch_add(1, SeqCst);
        spin(Duration::from_micros(100));
    }
}

#[test]
fn eager_waits_in_every_brick_and_deferred_once_a_layer() {
    static WAITS: AtomicU64 = AtomicU64::new(0);
    let _alone = alone();
    let profiler = BrickProfiler::global();
    let waits = || WAITS.swap(0, SeqCst);
    let (eager, deferred) = (site!("eager"), site!("deferred"));
    let layers = |site| {
        for layer in 0..3 {
            let _layer = layer_scope(layer);
            (0..4).for_each(|_| call(site, || ()));
        }
    };
    // Without a device there is nothing to wait for, in either mode.
    profiler.set_sync_mode(SyncMode::Eager);
    layers(eager);
    assert_eq!(waits(), 0);
    profiler.set_device(Some(Box::new(Counting(&WAITS))));
    layers(eager);
    assert_eq!(waits(), 12);
    profiler.set_sync_mode(SyncMode::Deferred);
    layers(deferred);
    assert_eq!(waits(), 3);
    profiler.set_device(None);
    layers(deferred);
    assert_eq!(waits(), 0);
    let (eager, deferred) = (stats("eager").unwrap(), stats("deferred").unwrap());
    assert_eq!((eager.calls(), deferred.calls()), (24, 24));
    // Inside of the timed region, or outside of it.
    assert!(eager.total_ns() >= 12.0 * 100e3 * 0.999);
    assert!(
        deferred.max_ns().unwrap() < 100e3 || cfg!(miri),
        "{:?}",
        deferred.max_ns()
    );
    assert_eq!(profiler.sync_mode(), SyncMode::Deferred);
}

/// What the profiler says it costs is about what it costs.
#[test]
#[cfg_attr(miri, ignore = "Miri's clock is virtual")]
fn the_cost_told_is_near_the_cost_paid() {
    let _alone = alone();
    let site = site!("cost");
    let begin = std::time::Instant::now();
    for _ in 0..200_000 {
        call(site, || ());
    }
    let paid = begin.elapsed().as_nanos() as f64 / 200_000.0;
    let snapshot = BrickProfiler::global().snapshot();
    let told = snapshot.cost().ns_per_hook.value().unwrap();
    assert!(
        told > 1.0 && told < paid * 3.0 && paid < told * 10.0,
        "told {told}, paid {paid}"
    );
    assert!(
        snapshot
            .bricks()
            .iter()
            .all(|brick| brick.info().name != "(profiler)")
    );
}
