//! Recordings, one at a time, and what must hold of every timeline.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use brick_runtime::timeline::{Event, EventKind, Limits, Recording, Timeline};

/// One recording at a time, in a process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn record(body: impl FnOnce()) -> Timeline {
    let recording = Recording::start(Limits::default()).unwrap();
    body();
    let timeline = recording.stop();
    assert_nested(&timeline);
    timeline
}

/// What must hold of every timeline.
pub(crate) fn assert_nested(timeline: &Timeline) {
    for (index, event) in timeline.events.iter().enumerate() {
        assert!(event.start_ns <= event.end_ns);
        assert!(event.end_ns <= timeline.clock.duration_ns, "{event:?}");
        if let Some(parent) = event.parent {
            assert!(parent < index);
            let parent = &timeline.events[parent];
            assert_eq!(parent.thread, event.thread);
            assert!(parent.start_ns <= event.start_ns && event.start_ns <= parent.end_ns);
        }
    }
}

/// `a > b > c` for each event of this test's own bricks and scopes.
pub(crate) fn paths(timeline: &Timeline) -> Vec<String> {
    let name = |event: &Event| match event.kind {
        EventKind::Layer(n) => format!("layer {n}"),
        EventKind::Token(n) => format!("token {n}"),
        kind => kind.to_string(),
    };
    (0..timeline.events.len())
        .filter(|&event| timeline.events[event].kind != EventKind::Fold)
        .map(|event| {
            let mut path: Vec<_> = timeline.ancestors(event).map(name).collect();
            path.reverse();
            path.join(" > ")
        })
        .collect()
}

pub(crate) fn of<'t>(timeline: &'t Timeline, name: &str) -> Vec<&'t Event> {
    let named = |event: &&Event| event.kind.to_string() == name;
    timeline.events.iter().filter(named).collect()
}
