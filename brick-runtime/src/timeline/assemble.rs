//! Logs in ticks become a timeline in nanoseconds.

use super::live::Anchor;
use super::log::{Closed, EventId, Raw};
use super::scale::Scale;
use super::{Clock, Event, Timeline};
use crate::figure::Figure;
use std::collections::HashMap;

/// What the threads wrote down, and all that is needed to say when that was.
#[derive(Debug)]
pub(crate) struct Stopped {
    /// By their numbers.
    pub(crate) logs: Vec<Closed>,
    /// Events that found no log.
    pub(crate) lost: u64,
    pub(crate) anchor: Anchor,
    /// The tick at which the recording stopped.
    pub(crate) stop: u64,
    pub(crate) ns_per_event: f64,
}

impl Stopped {
    /// Events that are in no log.
    pub(crate) fn dropped(&self) -> u64 {
        self.lost + self.logs.iter().map(|log| log.dropped).sum::<u64>()
    }

    /// All of it as a timeline, and the id of each event.
    pub(crate) fn assemble(self, scale: &Scale) -> (Timeline, Vec<EventId>) {
        let dropped = self.dropped();
        let events = |log: Closed| {
            let mut events: Vec<Raw> = log.ended.into_iter().flatten().chain(log.open).collect();
            // By their begin. None is missing: an event's index is its place.
            events.sort_unstable_by_key(|raw| raw.index);
            (log.thread, events)
        };
        let mut logs: Vec<_> = self.logs.into_iter().map(events).enumerate().collect();
        logs.retain(|(_, (_, events))| !events.is_empty());
        logs.sort_by_key(|(_, (_, events))| events.first().map(|event| event.start));
        let n = logs.iter().map(|(_, (_, events))| events.len()).sum();

        let mut timeline = Timeline {
            clock: Clock {
                start_unix_ns: self.anchor.unix_ns,
                duration_ns: scale.ns(self.stop),
            },
            threads: Vec::with_capacity(logs.len()),
            events: Vec::with_capacity(n),
            dropped,
            ns_per_event: Figure::Measured(self.ns_per_event),
        };
        let mut ids = Vec::with_capacity(n);
        let mut launched = Vec::new();
        // Of each log, where its events begin.
        let mut bases = HashMap::new();
        for (log, (thread, events)) in logs {
            let (number, base) = (timeline.threads.len(), timeline.events.len());
            timeline.threads.push(thread);
            bases.insert(log, base);
            for raw in events {
                let mut event = raw.event(scale, self.stop);
                (event.thread, event.parent) = (number, raw.parent.map(|parent| base + parent));
                launched.extend(raw.launched_by.map(|by| (timeline.events.len(), by)));
                timeline.events.push(event);
                ids.push(EventId {
                    log,
                    index: raw.index,
                });
            }
        }
        for (event, by) in launched {
            timeline.events[event].launched_by = bases.get(&by.log).map(|base| base + by.index);
        }
        (timeline, ids)
    }
}

impl Raw {
    /// In nanoseconds, on no thread and in nothing yet. What is open ends at the tick `stop`.
    pub(crate) fn event(&self, scale: &Scale, stop: u64) -> Event {
        Event {
            kind: self.kind,
            thread: 0,
            start_ns: scale.ns(self.start),
            end_ns: scale.ns(self.end.unwrap_or(stop).max(self.start)),
            outcome: self.outcome(),
            failure: self.failure.clone(),
            parent: None,
            launched_by: None,
            layer: self.layer,
            position: self.position,
            call: self.call,
            work: self.work,
        }
    }
}
