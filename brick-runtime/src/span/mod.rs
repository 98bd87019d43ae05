//! Spans: the one record that every sink takes.
//!
//! A [`SpanRecord`] says who called whom ([`TraceId`], [`SpanId`], parent), when (true start and end
//! in Unix time, and a [`LamportClock`] for order where clocks differ), and what ([`Attributes`]). A
//! [`TraceContext`] carries the first part from process to process, as a W3C `traceparent`.
//! [`RecordedSpans`] are those of a [`Timeline`](crate::timeline::Timeline), [`SpanStream`] those of a
//! recording that goes on.
//!
//! ```
//! use brick_runtime::span::{Attributes, Resource, SpanKind, SpanRecord, TraceContext};
//!
//! let caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
//! let caller: TraceContext = caller.parse().unwrap();
//! let span = SpanRecord::root("load", 1_000, 1_500, Resource::detect("demo"))
//!     .in_context(&caller)
//!     .kind(SpanKind::Server)
//!     .with(Attributes::new().and("model", "tiny"));
//! assert_eq!((span.trace_id, span.parent_span_id), (caller.trace_id, Some(caller.span_id)));
//! assert_eq!(span.duration_ns(), 500);
//! // What a process that is called from here gets:
//! assert!(span.context(caller.flags).to_string().starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"));
//! ```

mod attribute;
mod context;
mod describe;
mod id;
mod lamport;
mod record;
mod recorded;
mod resource;
mod stream;
#[cfg(feature = "visualization")]
mod stream_live;

pub use attribute::{Attributes, Value, code_attributes, keys};
pub use context::{TraceContext, TraceFlags, TraceparentError};
pub use id::{SpanId, TraceId};
pub use lamport::LamportClock;
pub use record::{SpanKind, SpanRecord, Status};
pub use recorded::RecordedSpans;
pub use resource::Resource;
#[cfg(feature = "otlp")]
pub(crate) use resource::pairs;
pub use stream::{SpanStream, StreamCounts};
