//! Logs in ticks become a timeline in nanoseconds.

use super::live::Anchor;
use super::log::{Log, Raw};
use super::{Clock, Event, EventKind, Timeline};
use crate::clock;
use crate::figure::Figure;

/// Puts together what the threads wrote down until the tick `stop`.
pub(super) fn assemble(
    mut logs: Vec<Log>,
    lost: u64,
    anchor: Anchor,
    stop: u64,
    ns_per_event: f64,
) -> Timeline {
    let ns_per_tick = clock::ns_per_tick();
    // Of a later tick never less: what is nested in ticks is nested in nanoseconds.
    let ns = |tick: u64| (tick.saturating_sub(anchor.tick) as f64 * ns_per_tick) as u64;
    let dropped = lost + logs.iter().map(|log| log.dropped).sum::<u64>();
    logs.retain(|log| !log.chunks.is_empty());
    let first = |log: &Log| log.chunks.first().and_then(|c| c.first()).map(|e| e.start);
    logs.sort_by_key(first);

    let mut timeline = Timeline {
        clock: Clock {
            start_unix_ns: anchor.unix_ns,
            duration_ns: ns(stop),
        },
        threads: Vec::with_capacity(logs.len()),
        events: Vec::with_capacity(logs.iter().flat_map(|l| &l.chunks).map(Vec::len).sum()),
        dropped,
        ns_per_event: Figure::Measured(ns_per_event),
    };
    for log in logs {
        let (thread, base) = (timeline.threads.len(), timeline.events.len());
        timeline.threads.push(log.thread);
        for raw in log.chunks.into_iter().flatten() {
            let mut event = event(&raw, thread, base, &ns, stop);
            if event.kind == EventKind::Fold {
                event.parent = still_open(&timeline.events, event.parent, event.start_ns);
            }
            timeline.events.push(event);
        }
    }
    timeline
}

fn event(raw: &Raw, thread: usize, base: usize, ns: &impl Fn(u64) -> u64, stop: u64) -> Event {
    Event {
        kind: raw.kind,
        thread,
        start_ns: ns(raw.start),
        end_ns: ns(raw.end.unwrap_or(stop).max(raw.start)),
        outcome: raw.outcome(),
        failure: raw.failure.clone(),
        parent: raw.parent.map(|parent| base + parent),
        layer: raw.layer,
        position: raw.position,
        call: raw.call,
        work: raw.work,
    }
}

/// The innermost of `parent` and what it is in that went on after `start`: a fold is written down
/// just before the end of the call that made it due.
fn still_open(events: &[Event], parent: Option<usize>, start: u64) -> Option<usize> {
    let mut outward = std::iter::successors(parent, |&parent| events[parent].parent);
    outward.find(|&parent| events[parent].end_ns > start)
}
