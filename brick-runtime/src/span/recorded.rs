//! A recorded timeline as spans.

use super::attribute::{Attributes, keys};
use super::context::TraceFlags;
use super::describe::{Describer, Place};
use super::id::SpanId;
use super::lamport::LamportClock;
use super::record::SpanRecord;
use crate::timeline::Timeline;

/// The spans of a [`Timeline`], and the one that they are part of.
///
/// Ids are given once, so that every sink is told the same; the records are made as they are asked
/// for. A span's parent is what launched it
/// ([`Event::launched_by`](crate::timeline::Event::launched_by)), else what was open on its thread. What
/// has neither is a child of the root: that it happened meanwhile is all that is known.
#[derive(Debug)]
pub struct RecordedSpans {
    timeline: Timeline,
    root: SpanRecord,
    /// Of each event.
    ids: Vec<SpanId>,
    /// Events by the time they ended, a child before its parent.
    order: Vec<usize>,
    /// The logical clock of each of these.
    clocks: Vec<u64>,
    describer: Describer,
    added: Vec<SpanRecord>,
}

impl RecordedSpans {
    /// The spans of `timeline`, part of `root`: its times become those of the whole recording, and
    /// its process, resource and trace are those of all. What the recording cost and dropped is said
    /// there. `clock` ticks at each span's end.
    #[must_use]
    pub fn new(timeline: Timeline, root: SpanRecord, clock: &LamportClock) -> Self {
        let events = &timeline.events;
        let mut order: Vec<usize> = (0..events.len()).collect();
        // Of two that ended together the inner one ended first, and it has the larger index.
        order.sort_by_key(|&index| (events[index].end_ns, std::cmp::Reverse(index)));
        let clocks = order.iter().map(|_| clock.tick()).collect();
        let ids = events.iter().map(|_| SpanId::random()).collect();
        let root = whole(root, &timeline, clock);
        RecordedSpans {
            describer: Describer::new(timeline.clock.start_unix_ns),
            ids,
            timeline,
            root,
            order,
            clocks,
            added: Vec::new(),
        }
    }

    /// With ids and clocks that were given while it was recorded: `told` is of each event its id and its
    /// clock.
    #[cfg(feature = "visualization")]
    pub(super) fn told(
        timeline: Timeline,
        root: SpanRecord,
        told: Vec<(SpanId, u64)>,
        describer: Describer,
    ) -> Self {
        let mut order: Vec<usize> = (0..told.len()).collect();
        order.sort_by_key(|&index| told[index].1);
        RecordedSpans {
            clocks: order.iter().map(|&index| told[index].1).collect(),
            ids: told.into_iter().map(|(id, _)| id).collect(),
            timeline,
            root,
            order,
            describer,
            added: Vec::new(),
        }
    }

    /// Adds to every span whose event is called so (`token`, `request`, …).
    #[must_use]
    pub fn with(mut self, name: &'static str, attributes: Attributes) -> Self {
        self.describer.add(name, attributes);
        self
    }

    /// Adds spans of what the recording left out, such as escalated calls, as children of the root.
    pub fn add(&mut self, spans: impl IntoIterator<Item = SpanRecord>) {
        let root = self.root.context(TraceFlags::SAMPLED);
        let spans = spans.into_iter().map(|span| span.in_context(&root));
        self.added.extend(spans);
    }

    /// How many, the root among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len() + self.added.len() + 1
    }

    /// Never: there is always the root.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// What was recorded.
    #[must_use]
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The span that the others are part of.
    #[must_use]
    pub fn root(&self) -> &SpanRecord {
        &self.root
    }

    /// All of them, by the time they ended; those that were added, and the root, come last.
    pub fn iter(&self) -> impl Iterator<Item = SpanRecord> {
        let mut describer = self.describer.afresh();
        let ended = self.order.iter().zip(&self.clocks);
        let spans = ended.map(move |(&index, &clock)| {
            let event = &self.timeline.events[index];
            let parent = event.launched_by.or(event.parent);
            let place = Place {
                id: self.ids[index],
                parent: parent.map_or(self.root.span_id, |parent| self.ids[parent]),
                clock,
                tid: self
                    .timeline
                    .threads
                    .get(event.thread)
                    .and_then(|thread| thread.os_id),
            };
            describer.span(&self.root, event, place)
        });
        let added = self.added.iter().cloned();
        spans.chain(added).chain(std::iter::once(self.root.clone()))
    }
}

/// `root` with the times and the cost of the whole recording.
fn whole(root: SpanRecord, timeline: &Timeline, clock: &LamportClock) -> SpanRecord {
    let start = timeline.clock.start_unix_ns;
    let root = SpanRecord {
        start_unix_ns: start,
        end_unix_ns: start.saturating_add(timeline.clock.duration_ns),
        logical_clock: Some(clock.tick()),
        ..root
    };
    root.with(cost(timeline.dropped, timeline.ns_per_event.value()))
}

/// What a recording dropped, and what it cost.
pub(super) fn cost(dropped: u64, ns_per_event: Option<f64>) -> Attributes {
    Attributes::new()
        .and(keys::RECORDING_DROPPED, dropped)
        .and_if(keys::RECORDING_NS, ns_per_event)
}
