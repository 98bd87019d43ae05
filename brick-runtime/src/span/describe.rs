//! What a span says of its event.

use super::attribute::{Attributes, code_attributes, keys};
use super::id::SpanId;
use super::record::{SpanRecord, Status};
use crate::timeline::{Event, EventKind, Outcome};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// Which span, of which, and when in logical time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) id: SpanId,
    pub(super) parent: SpanId,
    pub(super) clock: u64,
    pub(super) tid: Option<u64>,
}

/// Makes spans of a recording's events.
#[derive(Debug)]
pub(super) struct Describer {
    /// When the recording started.
    pub(super) start_unix_ns: u64,
    /// By the name of an event, what else its spans say.
    named: HashMap<&'static str, Attributes>,
    /// By the address of a brick, what the registry says.
    bricks: HashMap<usize, Attributes>,
}

impl Describer {
    pub(super) fn new(start_unix_ns: u64) -> Describer {
        Describer {
            start_unix_ns,
            named: HashMap::new(),
            bricks: HashMap::new(),
        }
    }

    /// Adds to every span whose event is called so.
    pub(super) fn add(&mut self, name: &'static str, attributes: Attributes) {
        self.named.entry(name).or_default().extend(attributes);
    }

    /// What is added to spans, and nothing that was found out meanwhile.
    pub(super) fn afresh(&self) -> Describer {
        Describer {
            start_unix_ns: self.start_unix_ns,
            named: self.named.clone(),
            bricks: HashMap::new(),
        }
    }

    /// The span of `event`, part of the trace of `root`.
    pub(super) fn span(&mut self, root: &SpanRecord, event: &Event, place: Place) -> SpanRecord {
        let mut attributes = match event.kind.brick() {
            Some(brick) => self
                .bricks
                .entry(std::ptr::from_ref(brick).addr())
                .or_insert_with(|| code_attributes(brick))
                .clone(),
            None => Attributes::new(),
        };
        attributes.extend(said_of(event));
        if let Some(more) = self.named.get(&*called(event.kind)) {
            attributes.extend(more.clone());
        }
        SpanRecord {
            trace_id: root.trace_id,
            span_id: place.id,
            parent_span_id: Some(place.parent),
            name: name(event),
            kind: super::SpanKind::default(),
            start_unix_ns: self.start_unix_ns.saturating_add(event.start_ns),
            end_unix_ns: self.start_unix_ns.saturating_add(event.end_ns),
            logical_clock: Some(place.clock),
            status: status(event),
            attributes,
            resource: Arc::clone(&root.resource),
            pid: root.pid,
            tid: place.tid,
        }
    }
}

fn status(event: &Event) -> Status {
    let message = match (&event.failure, event.outcome) {
        (Some(failure), _) => failure.message.clone().into(),
        (None, Outcome::Panicked) => "panicked".into(),
        (None, Outcome::Ended | Outcome::Open) => return Status::Unset,
    };
    Status::Error { message }
}

/// The name of an event without numbers, as its kind is shown.
fn called(kind: EventKind) -> Cow<'static, str> {
    match kind {
        EventKind::Brick(info) | EventKind::Poll(info) => info.name.into(),
        EventKind::Span(name) => name.into(),
        EventKind::Layer(_) => "layer".into(),
        EventKind::Token(_) => "token".into(),
        kind => kind.to_string().into(),
    }
}

/// A layer and a token with their numbers.
fn name(event: &Event) -> Cow<'static, str> {
    match event.kind {
        EventKind::Layer(layer) => format!("layer {layer}").into(),
        EventKind::Token(position) => format!("token {position}").into(),
        kind => called(kind),
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
