//! One thing that happened.

use std::fmt;
use std::sync::Arc;

use crate::registry::BrickInfo;

/// One thing that happened: a call, a poll or a scope.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What it is of.
    pub kind: EventKind,
    /// Index of its thread in [`Timeline::threads`](super::Timeline::threads).
    pub thread: usize,
    /// Nanoseconds from the recording's start.
    pub start_ns: u64,
    /// Nanoseconds from the recording's start.
    pub end_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it did not end well, where that is known; shared by all that failed for one reason.
    pub failure: Option<Arc<Failure>>,
    /// Index of the event that was open on this thread when it began; less than its own.
    pub parent: Option<usize>,
    /// Index of the event that handed this work over, where that is not its parent: it was open on
    /// another thread, or further out on this one. See [`handover`](super::handover).
    pub launched_by: Option<usize>,
    /// The layer that the thread was in when it began.
    pub layer: Option<u64>,
    /// The position that the thread was at when it began.
    pub position: Option<u64>,
    /// Polls with the same number are of one async call, in the order of their start.
    pub call: Option<u64>,
    /// What the call declared. Async calls declare theirs with their statistics only.
    pub work: Work,
}

impl Event {
    /// Nanoseconds from start to end.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// What an [`Event`] is of. Shown as a frame's name: a layer or a token without its number, so that
/// the same place is called the same.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// A call of a brick.
    Brick(&'static BrickInfo),
    /// A poll of an async brick.
    Poll(&'static BrickInfo),
    /// The check of a call's results.
    Check(&'static BrickInfo),
    /// A `layer_scope`.
    Layer(u64),
    /// A `position_scope`: the tokens computed there.
    Token(u64),
    /// A [`span_scope`](super::span_scope).
    Span(&'static str),
    /// The profiler folded its log: time that is no brick's.
    Fold,
}

impl EventKind {
    /// The brick of a call, a poll or a check.
    #[must_use]
    pub fn brick(&self) -> Option<&'static BrickInfo> {
        match *self {
            EventKind::Brick(info) | EventKind::Poll(info) | EventKind::Check(info) => Some(info),
            _ => None,
        }
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventKind::Brick(info) | EventKind::Poll(info) => f.write_str(info.name),
            EventKind::Check(info) => write!(f, "check of {}", info.name),
            EventKind::Layer(_) => f.write_str("layer"),
            EventKind::Token(_) => f.write_str("token"),
            EventKind::Span(name) => f.write_str(name),
            EventKind::Fold => f.write_str("(profiler)"),
        }
    }
}

/// How an [`Event`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The call returned, the scope was left.
    Ended,
    /// The call or the scope was ended by a panic.
    Panicked,
    /// It had not ended when the recording was stopped: its `end_ns` is that moment.
    Open,
}

/// Why an [`Event`] did not end well: a violation, or an error that [`fail`](super::fail) told of.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// The brick at which it showed, if one is known.
    pub brick: Option<&'static BrickInfo>,
}

/// What a call declared. `None` where it declared nothing, or zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Floating-point operations.
    pub flops: Option<u64>,
    /// Bytes moved.
    pub bytes: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Elements.
    pub elements: Option<u64>,
}
