//! One span.

use super::attribute::Attributes;
use super::context::{TraceContext, TraceFlags};
use super::id::{SpanId, TraceId};
use super::resource::Resource;
use std::borrow::Cow;
use std::sync::Arc;

/// What a span is to the others of its trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// Work inside of a process.
    #[default]
    Internal,
    /// Work that another process asked for.
    Server,
    /// A call of another process.
    Client,
    /// A message that is given to others.
    Producer,
    /// A message that came from others.
    Consumer,
}

impl SpanKind {
    /// `internal`, `server`, ….
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SpanKind::Internal => "internal",
            SpanKind::Server => "server",
            SpanKind::Client => "client",
            SpanKind::Producer => "producer",
            SpanKind::Consumer => "consumer",
        }
    }
}

/// How a span ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Nobody said.
    #[default]
    Unset,
    /// Said to be well.
    Ok,
    /// Not well.
    Error {
        /// What happened.
        message: Cow<'static, str>,
    },
}

impl Status {
    /// `unset`, `ok`, `error`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Status::Unset => "unset",
            Status::Ok => "ok",
            Status::Error { .. } => "error",
        }
    }
}

/// A span that has ended. Every sink is given these.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanRecord {
    /// The trace it is part of.
    pub trace_id: TraceId,
    /// Its id: the one that is exported.
    pub span_id: SpanId,
    /// The span that called it; `None` for the root of a trace.
    pub parent_span_id: Option<SpanId>,
    /// What it is called.
    pub name: Cow<'static, str>,
    /// What it is to the others.
    pub kind: SpanKind,
    /// When it began: nanoseconds since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// When it ended, not before it began.
    pub end_unix_ns: u64,
    /// The number of a [`LamportClock`](super::LamportClock) when it ended, if one was asked.
    pub logical_clock: Option<u64>,
    /// How it ended.
    pub status: Status,
    /// What else is known.
    pub attributes: Attributes,
    /// Who recorded it; the same for all spans of a process.
    pub resource: Arc<Resource>,
    /// The process.
    pub pid: u32,
    /// The thread, as its recorder numbers threads; `None` where it was many or is not known.
    pub tid: Option<u64>,
}

impl SpanRecord {
    /// A span of a new trace, recorded in this process.
    #[must_use]
    pub fn root(
        name: impl Into<Cow<'static, str>>,
        start_unix_ns: u64,
        end_unix_ns: u64,
        resource: impl Into<Arc<Resource>>,
    ) -> SpanRecord {
        SpanRecord {
            trace_id: TraceId::random(),
            span_id: SpanId::random(),
            parent_span_id: None,
            name: name.into(),
            kind: SpanKind::default(),
            start_unix_ns,
            end_unix_ns: end_unix_ns.max(start_unix_ns),
            logical_clock: None,
            status: Status::default(),
            attributes: Attributes::new(),
            resource: resource.into(),
            pid: std::process::id(),
            tid: None,
        }
    }

    /// A span that this one called: same trace, process and resource.
    #[must_use]
    pub fn child(
        &self,
        name: impl Into<Cow<'static, str>>,
        start_unix_ns: u64,
        end_unix_ns: u64,
    ) -> SpanRecord {
        SpanRecord {
            trace_id: self.trace_id,
            parent_span_id: Some(self.span_id),
            pid: self.pid,
            tid: self.tid,
            ..SpanRecord::root(name, start_unix_ns, end_unix_ns, Arc::clone(&self.resource))
        }
    }

    /// As called from `context`.
    #[must_use]
    pub fn in_context(mut self, context: &TraceContext) -> SpanRecord {
        self.trace_id = context.trace_id;
        self.parent_span_id = Some(context.span_id);
        self
    }

    /// Of this kind.
    #[must_use]
    pub fn kind(mut self, kind: SpanKind) -> SpanRecord {
        self.kind = kind;
        self
    }

    /// With these attributes as well.
    #[must_use]
    pub fn with(mut self, attributes: Attributes) -> SpanRecord {
        self.attributes.extend(attributes);
        self
    }

    /// Ended so.
    #[must_use]
    pub fn status(mut self, status: Status) -> SpanRecord {
        self.status = status;
        self
    }

    /// From start to end, in nanoseconds.
    #[must_use]
    pub fn duration_ns(&self) -> u64 {
        self.end_unix_ns.saturating_sub(self.start_unix_ns)
    }

    /// What a process that is called from this span is to be told.
    #[must_use]
    pub fn context(&self, flags: TraceFlags) -> TraceContext {
        TraceContext {
            trace_id: self.trace_id,
            span_id: self.span_id,
            flags,
        }
    }
}
