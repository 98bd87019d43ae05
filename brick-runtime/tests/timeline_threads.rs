//! What a recording holds of threads that come, go, and work for each other.
#![cfg(feature = "visualization")]

mod common;
mod recording;

use std::collections::HashMap;
use std::sync::Barrier;
use std::time::Duration;

use brick_runtime::layer_scope;
use brick_runtime::timeline::{EventKind, Limits, Recording, span_scope};
use common::{call, spin, stats};
use rayon::prelude::*;
use recording::{alone, assert_nested, of, record};

#[test]
fn threads_that_end_are_kept_apart_and_named() {
    let _alone = alone();
    let site = site!("threaded");
    const THREADS: usize = if cfg!(miri) { 3 } else { 32 };
    const CALLS: usize = if cfg!(miri) { 20 } else { 3000 };
    let timeline = record(|| {
        let barrier = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for number in 0..THREADS {
                let barrier = &barrier;
                let named = std::thread::Builder::new().name(format!("worker {number}"));
                let work = move || {
                    barrier.wait();
                    let _span = span_scope("thread");
                    (0..CALLS).for_each(|_| call(site, || ()));
                };
                named.spawn_scoped(scope, work).unwrap();
            }
        });
    });
    assert_eq!(timeline.dropped, 0);
    let mut calls = HashMap::new();
    for event in of(&timeline, "threaded") {
        let name = timeline.threads[event.thread].name.as_deref().unwrap();
        *calls.entry(name).or_insert(0) += 1;
        assert_eq!(
            timeline.events[event.parent.unwrap()].kind,
            EventKind::Span("thread")
        );
    }
    assert_eq!(calls.len(), THREADS);
    assert!(calls.values().all(|&n| n == CALLS), "{calls:?}");
    if cfg!(all(target_os = "linux", not(miri))) {
        let ids: std::collections::HashSet<_> = timeline
            .threads
            .iter()
            .map(|thread| thread.os_id.unwrap())
            .collect();
        assert_eq!(ids.len(), timeline.threads.len());
    }
}

/// A pool's threads do not know for whom they work: no parent is made up.
#[test]
#[cfg_attr(miri, ignore = "rayon's deque does what Miri refuses")]
fn a_pools_work_has_no_parent_but_on_the_callers_thread() {
    let _alone = alone();
    let (caller, part) = (site!("caller"), site!("part"));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(4)
        .build()
        .unwrap();
    let timeline = record(|| {
        pool.install(|| {
            call(caller, || {
                (0..64)
                    .into_par_iter()
                    .for_each(|_| call(part, || spin(Duration::from_micros(50))));
            });
        });
    });
    let caller = of(&timeline, "caller")[0].clone();
    let parts = of(&timeline, "part");
    assert_eq!(parts.len(), 64);
    for part in parts {
        let parent = part.parent.map(|parent| timeline.events[parent].kind);
        let expected = (part.thread == caller.thread).then_some(caller.kind);
        assert_eq!(parent, expected);
    }
}

/// Starts and stops while threads are in the middle of calls.
#[test]
fn recordings_come_and_go_under_load() {
    let _alone = alone();
    let (outer, inner) = (site!("busy outer"), site!("busy inner"));
    let stop = std::sync::atomic::AtomicBool::new(false);
    let started = Barrier::new(4);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let (calls, rounds) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    call(outer, || call(inner, || ()));
                    let mut calls = 1;
                    started.wait();
                    while !stop.load(relaxed) {
                        let _layer = layer_scope(1);
                        call(outer, || call(inner, || ()));
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        started.wait();
        let rounds = if cfg!(miri) { 3 } else { 200 };
        for _ in 0..rounds {
            let recording = Recording::start(Limits { events: 2000 }).unwrap();
            std::thread::yield_now();
            let timeline = recording.stop();
            assert_nested(&timeline);
            for event in of(&timeline, "busy inner") {
                let parent = event
                    .parent
                    .map(|parent| timeline.events[parent].kind.to_string());
                // The call around it may have begun before, or not have fitted.
                assert!(matches!(
                    parent.as_deref(),
                    None | Some("busy outer" | "layer")
                ));
            }
        }
        stop.store(true, relaxed);
        let calls: u64 = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum();
        (calls, rounds)
    });
    assert!(rounds > 0);
    assert_eq!(stats("busy outer").unwrap().calls(), calls);
    assert_eq!(stats("busy inner").unwrap().calls(), calls);
}
