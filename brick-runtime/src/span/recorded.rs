//! A recorded timeline as spans.

use super::attribute::{Attributes, code_attributes, keys};
use super::id::SpanId;
use super::lamport::LamportClock;
use super::record::{SpanRecord, Status};
use crate::registry::BrickInfo;
use crate::timeline::{Event, EventKind, Outcome, Timeline};
use std::borrow::Cow;
use std::collections::HashMap;

/// The spans of a [`Timeline`], and the one that they are part of.
///
/// Ids are given once, so that every sink is told the same; the records are made as they are asked
/// for. A span's parent is what was open on its thread. What has none, such as the work of a pool's
/// thread, is a child of the root: that it happened meanwhile is all that is known.
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
    attributes: HashMap<&'static str, Attributes>,
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
        let start = timeline.clock.start_unix_ns;
        let root = SpanRecord {
            start_unix_ns: start,
            end_unix_ns: start.saturating_add(timeline.clock.duration_ns),
            logical_clock: Some(clock.tick()),
            ..root
        };
        let root = root.with(
            Attributes::new()
                .and(keys::RECORDING_DROPPED, timeline.dropped)
                .and_if(keys::RECORDING_NS, timeline.ns_per_event.value()),
        );
        RecordedSpans {
            ids: events.iter().map(|_| SpanId::random()).collect(),
            attributes: HashMap::new(),
            timeline,
            root,
            order,
            clocks,
        }
    }

    /// Adds to every span whose event is called so (`token`, `request`, …).
    #[must_use]
    pub fn with(mut self, name: &'static str, attributes: Attributes) -> Self {
        self.attributes.entry(name).or_default().extend(attributes);
        self
    }

    /// How many, the root among them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len() + 1
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

    /// All of them, by the time they ended; the root comes last.
    pub fn iter(&self) -> impl Iterator<Item = SpanRecord> {
        let mut bricks: HashMap<*const BrickInfo, Attributes> = HashMap::new();
        let ended = self.order.iter().zip(&self.clocks);
        let spans = ended.map(move |(&index, &clock)| {
            let event = &self.timeline.events[index];
            let mut attributes = match event.kind.brick() {
                Some(brick) => bricks
                    .entry(brick)
                    .or_insert_with(|| code_attributes(brick))
                    .clone(),
                None => Attributes::new(),
            };
            attributes.extend(said_of(event));
            if let Some(more) = self.attributes.get(&*event.kind.to_string()) {
                attributes.extend(more.clone());
            }
            self.record(index, event, attributes, clock)
        });
        spans.chain(std::iter::once(self.root.clone()))
    }

    fn record(
        &self,
        index: usize,
        event: &Event,
        attributes: Attributes,
        clock: u64,
    ) -> SpanRecord {
        let start = self.timeline.clock.start_unix_ns;
        let thread = self.timeline.threads.get(event.thread);
        let (from, to) = (
            start.saturating_add(event.start_ns),
            start.saturating_add(event.end_ns),
        );
        SpanRecord {
            span_id: self.ids[index],
            parent_span_id: Some(
                event
                    .parent
                    .map_or(self.root.span_id, |parent| self.ids[parent]),
            ),
            logical_clock: Some(clock),
            status: match (&event.failure, event.outcome) {
                (Some(failure), _) => Status::Error {
                    message: failure.message.clone().into(),
                },
                (None, Outcome::Panicked) => Status::Error {
                    message: "panicked".into(),
                },
                (None, Outcome::Ended | Outcome::Open) => Status::Unset,
            },
            attributes,
            tid: thread.and_then(|thread| thread.os_id),
            ..self.root.child(name(event), from, to)
        }
    }
}

/// A layer and a token with their numbers.
fn name(event: &Event) -> Cow<'static, str> {
    match event.kind {
        EventKind::Brick(info) | EventKind::Poll(info) => info.name.into(),
        EventKind::Layer(layer) => format!("layer {layer}").into(),
        EventKind::Token(position) => format!("token {position}").into(),
        EventKind::Span(name) => name.into(),
        kind => kind.to_string().into(),
    }
}

/// What the event itself says.
fn said_of(event: &Event) -> Attributes {
    let what = match event.kind {
        EventKind::Brick(_) => "brick",
        EventKind::Poll(_) => "poll",
        EventKind::Check(_) => "check",
        EventKind::Layer(_) => "layer",
        EventKind::Token(_) => "token",
        EventKind::Span(_) => "scope",
        EventKind::Fold => "profiler",
    };
    let (layer, position) = match event.kind {
        EventKind::Layer(layer) => (Some(layer), event.position),
        EventKind::Token(position) => (event.layer, Some(position)),
        _ => (event.layer, event.position),
    };
    let open = event.outcome == Outcome::Open;
    let failed = event.failure.as_ref().and_then(|failure| failure.brick);
    Attributes::new()
        .and(keys::BRICK_EVENT, what)
        .and_if(keys::BRICK_LAYER, layer)
        .and_if(keys::BRICK_POSITION, position)
        .and_if(keys::BRICK_FLOPS, event.work.flops)
        .and_if(keys::BRICK_BYTES, event.work.bytes)
        .and_if(keys::BRICK_TOKENS, event.work.tokens)
        .and_if(keys::BRICK_ELEMENTS, event.work.elements)
        .and_if(keys::BRICK_CALL, event.call)
        .and_if(keys::BRICK_OPEN, open.then_some(true))
        .and_if(keys::BRICK_FAILED, failed.map(|brick| brick.name))
}
