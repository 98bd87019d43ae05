//! What a recording holds: every call, when it was and what it was in.
#![cfg(feature = "visualization")]

mod common;
mod recording;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime};

use brick_runtime::__private::Site;
use brick_runtime::timeline::{
    Event, EventKind, Limits, Outcome, Recording, RecordingError, Timeline, span_scope,
};
use brick_runtime::{BrickProfiler, layer_scope, position_scope};
use common::{call, spin, stats};
use recording::{alone, assert_nested, of, paths, record};

#[test]
fn an_event_is_in_what_was_open_when_it_began() {
    let _alone = alone();
    let (outer, inner) = (site!("outer"), site!("inner"));
    let timeline = record(|| {
        let _request = span_scope("request");
        for token in [7, 8] {
            let _token = position_scope(token);
            let _layer = layer_scope(3);
            call(outer, || call(inner, || ()));
        }
        call(inner, || ());
    });
    assert_eq!(
        paths(&timeline),
        [
            "request",
            "request > token 7",
            "request > token 7 > layer 3",
            "request > token 7 > layer 3 > outer",
            "request > token 7 > layer 3 > outer > inner",
            "request > token 8",
            "request > token 8 > layer 3",
            "request > token 8 > layer 3 > outer",
            "request > token 8 > layer 3 > outer > inner",
            "request > inner",
        ]
    );
    let inner = of(&timeline, "inner");
    assert_eq!((inner[1].layer, inner[1].position), (Some(3), Some(8)));
    assert_eq!((inner[2].layer, inner[2].position), (None, None));
    assert!(timeline.events.iter().all(|e| e.outcome == Outcome::Ended));
}

/// Times against the operating system's clock.
#[test]
#[cfg_attr(miri, ignore = "Miri's clock is virtual")]
fn times_are_wall_clock() {
    let _alone = alone();
    let site = site!("timed");
    let unix = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64
    };
    let mut around = (0, 0);
    let before = unix();
    let timeline = record(|| {
        std::thread::sleep(Duration::from_millis(3));
        around.0 = unix();
        call(site, || spin(Duration::from_millis(5)));
        around.1 = unix();
    });
    let event = of(&timeline, "timed")[0];
    let start = timeline.clock.start_unix_ns + event.start_ns;
    let end = timeline.clock.start_unix_ns + event.end_ns;
    assert!(before <= timeline.clock.start_unix_ns);
    // The rate of the clock is measured to 0.01 %; 20 µs is 0.2 % of what has passed.
    assert!(
        around.0 <= start + 20_000,
        "began {start}, not before {}",
        around.0
    );
    assert!(
        end <= around.1 + 20_000,
        "ended {end}, not after {}",
        around.1
    );
    assert!(event.duration_ns() >= 4_990_000, "{event:?}");
}

/// The same clock reads: sums of events are the statistics.
#[test]
fn statistics_are_the_same_and_of_the_same_reads() {
    let _alone = alone();
    let (parent, child) = (site!("same parent"), site!("same child"));
    const CALLS: usize = if cfg!(miri) { 40 } else { 3000 };
    let timeline = record(|| {
        for _ in 0..CALLS {
            call(parent, || {
                (0..2).for_each(|_| call(child, || spin(Duration::from_nanos(200))))
            });
        }
    });
    let own = timeline.self_ns();
    for (name, calls) in [("same parent", CALLS), ("same child", 2 * CALLS)] {
        let stats = stats(name).unwrap();
        let sum = |value: &dyn Fn(usize, &Event) -> u64| -> f64 {
            let events = timeline.events.iter().enumerate();
            let ours = events.filter(|(_, event)| event.kind.to_string() == name);
            ours.map(|(index, event)| value(index, event) as f64).sum()
        };
        assert_eq!(
            (of(&timeline, name).len(), stats.calls()),
            (calls, calls as u64)
        );
        // Each event's start and end are cut to whole nanoseconds; the rate is measured anew each time.
        let near = |ours: f64, theirs: f64| {
            let off = (ours - theirs).abs();
            assert!(
                off <= 3.0 * calls as f64 + 1e-3 * theirs,
                "{name}: {ours} and {theirs}"
            );
        };
        near(sum(&|_, event| event.duration_ns()), stats.total_ns());
        near(sum(&|index, _| own[index]), stats.self_ns());
    }
}

#[test]
fn what_a_call_declared_is_in_its_event() {
    let _alone = alone();
    let timeline = record(|| {
        site!("declares")
            .open()
            .flops(12u64)
            .bytes(34u64)
            .start()
            .exit();
        call(site!("declares nothing"), || ());
    });
    let work = of(&timeline, "declares")[0].work;
    assert_eq!(
        (work.flops, work.bytes, work.tokens),
        (Some(12), Some(34), None)
    );
    assert_eq!(
        of(&timeline, "declares nothing")[0].work,
        Default::default()
    );
}

#[test]
fn a_panic_ends_an_event_and_recursion_nests() {
    let _alone = alone();
    fn down(site: &'static Site, depth: u32) {
        call(site, || match depth {
            0 => std::panic::resume_unwind(Box::new(())),
            depth => down(site, depth - 1),
        });
    }
    let site = site!("falls");
    let timeline = record(|| {
        catch_unwind(AssertUnwindSafe(|| down(site, 4))).unwrap_err();
        call(site, || ());
    });
    let falls = of(&timeline, "falls");
    let outcomes: Vec<_> = falls.iter().map(|event| event.outcome).collect();
    assert_eq!(
        outcomes,
        [vec![Outcome::Panicked; 5], vec![Outcome::Ended]].concat()
    );
    let parents: Vec<_> = falls.iter().map(|event| event.parent.is_some()).collect();
    assert_eq!(parents, [false, true, true, true, true, false]);
}

#[test]
fn calls_across_the_edges_are_left_out_or_open() {
    let _alone = alone();
    let (before, after) = (site!("before"), site!("after"));
    let guard = before.open().start();
    let recording = Recording::start(Limits::default()).unwrap();
    guard.exit();
    let _layer = layer_scope(5);
    let guard = after.open().start();
    let timeline = recording.stop();
    guard.exit();
    assert_eq!(paths(&timeline), ["layer 5", "layer 5 > after"]);
    let after = of(&timeline, "after")[0];
    assert_eq!(after.outcome, Outcome::Open);
    assert_eq!(after.end_ns, timeline.clock.duration_ns);
    assert_eq!(
        (
            stats("before").unwrap().calls(),
            stats("after").unwrap().calls()
        ),
        (1, 1)
    );
    // The next recording begins with nothing open.
    let next = record(|| call(site!("next"), || ()));
    assert_eq!(paths(&next), ["next"]);
}

/// Guards may outlive what they were made in, and be dropped in any order.
#[test]
fn scopes_that_do_not_nest_end_when_they_are_left() {
    let _alone = alone();
    let timeline = record(|| {
        let span = call(site!("returns a guard"), || span_scope("guarded"));
        call(site!("under the guard"), || ());
        let layer = layer_scope(1);
        drop(span);
        call(site!("in the layer"), || ());
        drop(layer);
        call(site!("outside"), || ());
    });
    assert_eq!(
        paths(&timeline),
        [
            "returns a guard",
            "returns a guard > guarded",
            "returns a guard > guarded > under the guard",
            "returns a guard > guarded > layer 1",
            "returns a guard > guarded > layer 1 > in the layer",
            "outside",
        ]
    );
    let [returns, guarded] = ["returns a guard", "guarded"].map(|name| of(&timeline, name)[0]);
    assert!(guarded.end_ns >= returns.end_ns);
    let own = timeline.self_ns();
    assert!(own[0] <= returns.duration_ns());
}

#[test]
fn the_limit_is_kept_and_what_is_dropped_is_counted() {
    let _alone = alone();
    let (outer, inner) = (site!("limited outer"), site!("limited inner"));
    // More than several chunks hold, and than are folded at a time. Chunks are small in Miri, which is slow.
    let many = if cfg!(miri) { (70, 50) } else { (5000, 3000) };
    for (limit, calls) in [(0, 5), (1, 5), (37, 20), many] {
        let before = stats("limited inner").map_or(0, |stats| stats.calls());
        let recording = Recording::start(Limits { events: limit }).unwrap();
        for _ in 0..calls {
            call(outer, || call(inner, || ()));
        }
        let timeline = recording.stop();
        assert_nested(&timeline);
        assert_eq!(
            timeline.events.len(),
            limit.min(2 * calls + folds(&timeline))
        );
        let begun = timeline.events.len() - folds(&timeline) + timeline.dropped as usize;
        // Folds that did not fit are among the dropped.
        assert!(
            (2 * calls..=2 * calls + calls).contains(&begun),
            "{begun} of {calls}"
        );
        assert!(
            timeline
                .events
                .iter()
                .all(|event| event.outcome == Outcome::Ended)
        );
        let now = stats("limited inner").unwrap().calls();
        assert_eq!(now - before, calls as u64);
    }
}

fn folds(timeline: &Timeline) -> usize {
    let fold = |event: &&Event| event.kind == EventKind::Fold;
    timeline.events.iter().filter(fold).count()
}

#[test]
fn one_recording_at_a_time_and_none_when_disabled() {
    let _alone = alone();
    let first = Recording::start(Limits::default()).unwrap();
    let second = Recording::start(Limits::default());
    assert_eq!(second.unwrap_err(), RecordingError::Busy);
    drop(first);
    let profiler = BrickProfiler::global();
    profiler.disable();
    let disabled = Recording::start(Limits::default());
    profiler.enable();
    assert_eq!(disabled.unwrap_err(), RecordingError::Disabled);
    let timeline = record(|| call(site!("after the errors"), || ()));
    assert_eq!(paths(&timeline), ["after the errors"]);
    let cost = timeline.ns_per_event.value().unwrap();
    assert!(cost > 0.0 || cfg!(miri), "{cost}");
}

/// What a report says that the profiler cost, is what it costs while a timeline is recorded.
#[test]
fn a_snapshot_tells_the_cost_of_recorded_calls() {
    let _alone = alone();
    let each = || BrickProfiler::global().snapshot().cost().ns_per_hook;
    let before = each();
    let recording = Recording::start(Limits::default()).unwrap();
    let during = each();
    let timeline = recording.stop();
    assert_eq!(during, timeline.ns_per_event);
    assert_ne!(during, before);
    assert_eq!(each(), before);
}
