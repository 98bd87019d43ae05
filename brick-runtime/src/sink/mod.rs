//! Sinks: where spans go.
//!
//! A [`Sink`] takes batches of [`SpanRecord`]s and may be slow, fail, or be gone. An [`Exporter`] stands
//! between it and the program: it keeps a bounded number of spans, sends them from a thread of its own,
//! tries again what failed for the moment, and counts what it had to drop. The program waits for
//! nothing but the flush at its end, and for that no longer than it says.
//!
//! ```
//! use brick_runtime::sink::{Exporter, Limits, Sink, SinkError};
//! use brick_runtime::span::{Resource, SpanRecord};
//! use std::sync::mpsc::{Sender, channel};
//! use std::time::Duration;
//!
//! /// Hands on the names.
//! struct Names(Sender<String>);
//!
//! impl Sink for Names {
//!     fn export(&mut self, spans: &[SpanRecord], _: Duration) -> Result<(), SinkError> {
//!         for span in spans {
//!             let sent = self.0.send(span.name.to_string());
//!             sent.map_err(|_| SinkError::Permanent("nobody listens".into()))?;
//!         }
//!         Ok(())
//!     }
//! }
//!
//! let (names, received) = channel();
//! let exporter = Exporter::start(Names(names), Limits::default()).unwrap();
//! exporter.offer(SpanRecord::root("load", 0, 1, Resource::detect("demo")));
//! let report = exporter.finish(Duration::from_secs(5));
//! assert_eq!((report.sent, report.dropped()), (1, 0));
//! assert_eq!(received.recv().as_deref(), Ok("load"));
//! ```
//!
//! A [`LiveExport`] feeds one from a recording that goes on.
//!
//! Its parts are of use elsewhere: [`WatermarkedBuffer`], [`CircuitBreaker`], [`Backoff`]. None of them
//! reads a clock: they are told what time it is.

mod backoff;
mod breaker;
mod buffer;
mod courier;
mod exporter;
mod live;
#[cfg(feature = "otlp")]
pub mod otlp;
#[cfg(feature = "parquet")]
pub mod parquet;

pub use backoff::Backoff;
pub use breaker::{BreakerState, CircuitBreaker};
pub use buffer::WatermarkedBuffer;
pub use courier::{ExportReport, Limits};
pub use exporter::Exporter;
pub use live::LiveExport;

use crate::span::SpanRecord;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// Takes spans: a collector, a file, whatever is written for it.
pub trait Sink: Send + 'static {
    /// Takes a batch: all of it, or none and an error, or most of it and
    /// [`SinkError::Partial`]. Returns within `timeout`; one that does not holds back nobody but the
    /// spans behind it.
    ///
    /// # Errors
    /// Why the batch was not taken, and whether it makes sense to offer it again. A batch that is
    /// offered again has the same span ids.
    fn export(&mut self, spans: &[SpanRecord], timeout: Duration) -> Result<(), SinkError>;
}

/// Why a sink did not take a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SinkError {
    /// Not now: the batch is offered again.
    Retry {
        /// What happened, in one line.
        why: String,
        /// Not before this time, if the sink said so.
        after: Option<Duration>,
    },
    /// Not this batch, however often it is offered.
    Permanent(String),
    /// Taken, but for some of the spans.
    Partial {
        /// How many were not taken.
        rejected: u64,
        /// What the sink said.
        why: String,
    },
}

impl SinkError {
    /// Not now, because of `why`.
    pub fn retry(why: impl Into<String>) -> SinkError {
        SinkError::Retry {
            why: why.into(),
            after: None,
        }
    }

    /// What happened.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            SinkError::Retry { why, .. }
            | SinkError::Permanent(why)
            | SinkError::Partial { why, .. } => why,
        }
    }
}

impl Display for SinkError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SinkError::Partial { rejected, why } => write!(f, "{rejected} spans rejected: {why}"),
            other => f.write_str(other.why()),
        }
    }
}

impl std::error::Error for SinkError {}
