//! Timelines made by hand.

use brick_runtime::Figure;
use brick_runtime::timeline::{Clock, Event, EventKind, Outcome, Thread, Timeline, Work};

/// An event that ended and declared nothing.
pub(crate) fn event(
    kind: EventKind,
    thread: usize,
    (start_ns, end_ns): (u64, u64),
    parent: Option<usize>,
) -> Event {
    Event {
        kind,
        thread,
        start_ns,
        end_ns,
        outcome: Outcome::Ended,
        failure: None,
        parent,
        launched_by: None,
        layer: None,
        position: None,
        call: None,
        work: Work::default(),
    }
}

/// Of these events, on as many nameless threads as they need, up to the last end.
pub(crate) fn timeline(events: Vec<Event>) -> Timeline {
    let threads = events.iter().map(|e| e.thread + 1).max().unwrap_or(0);
    Timeline {
        clock: Clock {
            start_unix_ns: 1_700_000_000_000_000_000,
            duration_ns: events.iter().map(|e| e.end_ns).max().unwrap_or(0),
        },
        threads: vec![Thread::default(); threads],
        events,
        dropped: 0,
        ns_per_event: Figure::unavailable("made by hand"),
    }
}
