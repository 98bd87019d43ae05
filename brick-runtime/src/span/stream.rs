//! Spans of a recording that goes on.

use super::attribute::Attributes;
use super::lamport::LamportClock;
use super::record::SpanRecord;
use super::recorded::RecordedSpans;
use crate::figure::Figure;
use crate::timeline::Recording;

/// The spans of a [`Recording`], each when it has ended.
///
/// [`advance`](SpanStream::advance) looks what has ended since, the iterator gives it away: by the time it
/// ended, a child before its parent, the root at last, when it is [complete](SpanStream::complete). Whoever stays
/// away for good has missed what was recorded since it last looked, and no more. What a thread ended last
/// is given away after the look that follows: until then it may be said to have [failed](crate::timeline::fail).
///
/// What is given away takes no memory any more, unless the recording is to be
/// [kept](SpanStream::keeping) for somebody else; the recording's
/// [limits](crate::timeline::Limits) count what is there, not what was.
///
/// ```
/// use brick_runtime::span::{LamportClock, Resource, SpanRecord, SpanStream};
/// use brick_runtime::timeline::{Limits, Recording, span_scope};
///
/// if let Ok(recording) = Recording::start(Limits::default()) {
///     let root = SpanRecord::root("demo", 0, 0, Resource::detect("demo"));
///     let mut stream = SpanStream::new(recording, root, LamportClock::new());
///     drop(span_scope("first"));
///     drop(span_scope("second"));
///     stream.advance();
///     assert_eq!(stream.next().unwrap().name, "first");
///     assert_eq!(stream.next(), None); // it may still be said of the second that it failed
///     stream.complete(|root| root);
///     let rest: Vec<_> = stream.map(|span| span.name).collect();
///     assert_eq!(rest, ["second", "demo"]);
/// }
/// ```
#[derive(Debug)]
pub struct SpanStream {
    #[cfg(feature = "visualization")]
    live: super::stream_live::Stream,
    #[cfg(not(feature = "visualization"))]
    never: std::convert::Infallible,
}

/// What a [`SpanStream`] has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamCounts {
    /// Events, of which each is a span, and the root is one more. Those that are still open are counted
    /// when it has stopped.
    pub events: usize,
    /// Threads that they are of.
    pub threads: usize,
    /// Calls and scopes that the recording had no room for; known when it has stopped.
    pub dropped: u64,
    /// Nanoseconds that a recorded call costs, the hook's included.
    pub ns_per_event: Figure,
}

/// Does as it says where there is a stream, which there is not without `visualization`.
macro_rules! live {
    ($self:ident . $method:ident ( $($argument:expr),* )) => {{
        #[cfg(feature = "visualization")]
        {
            $self.live.$method($($argument),*)
        }
        #[cfg(not(feature = "visualization"))]
        {
            let _ = ($($argument,)*);
            match $self.never {}
        }
    }};
}

impl SpanStream {
    /// The spans of `recording`, part of `root`: its times become those of the whole recording, and
    /// its process, resource and trace are those of all. `clock` ticks at each span's end.
    #[must_use]
    pub fn new(recording: Recording, root: SpanRecord, clock: LamportClock) -> SpanStream {
        #[cfg(feature = "visualization")]
        {
            let live = super::stream_live::Stream::new(recording, root, clock);
            SpanStream { live }
        }
        #[cfg(not(feature = "visualization"))]
        {
            let _ = (root, clock);
            recording.never()
        }
    }

    /// Keeps what is given away: [`complete`](SpanStream::complete) then has the whole recording.
    #[must_use]
    pub fn keeping(self) -> SpanStream {
        #[cfg(feature = "visualization")]
        {
            let live = self.live.keeping();
            SpanStream { live }
        }
        #[cfg(not(feature = "visualization"))]
        {
            match self.never {}
        }
    }

    /// Adds to every span whose event is called so (`token`, `request`, …).
    #[must_use]
    pub fn with(self, name: &'static str, attributes: Attributes) -> SpanStream {
        #[cfg(feature = "visualization")]
        {
            let live = self.live.with(name, attributes);
            SpanStream { live }
        }
        #[cfg(not(feature = "visualization"))]
        {
            let _ = (name, attributes);
            match self.never {}
        }
    }

    /// Looks what has ended since. Threads that are being recorded are held up for no longer than it
    /// takes to carry off a list.
    pub fn advance(&mut self) {
        live!(self.advance())
    }

    /// Stops the recording: what comes now is not part of it. What is left can still be taken, but for
    /// the root, of which more may be found out.
    pub fn stop(&mut self) {
        live!(self.stop())
    }

    /// Stops the recording, if that has not been done, and completes the root with what is known of it
    /// now: attributes, a status. The whole recording, if it was to be [kept](SpanStream::keeping),
    /// with the ids that were given away. Asked again, it does nothing.
    pub fn complete(
        &mut self,
        complete: impl FnOnce(SpanRecord) -> SpanRecord,
    ) -> Option<RecordedSpans> {
        live!(self.complete(complete))
    }

    /// Adds spans of what the recording left out, such as escalated calls, as children of the root: they
    /// are given away before it.
    pub fn add(&mut self, spans: Vec<SpanRecord>) {
        live!(self.add(spans))
    }

    /// How many spans there are, given away or not, with those that were added and the root.
    #[must_use]
    pub fn spans(&self) -> usize {
        live!(self.spans())
    }

    /// The span that all are part of; its times and its attributes are complete when the recording has
    /// stopped.
    #[must_use]
    pub fn root(&self) -> &SpanRecord {
        live!(self.root())
    }

    /// How much it was.
    #[must_use]
    pub fn counts(&self) -> StreamCounts {
        live!(self.counts())
    }
}

/// Those that have ended when [`advance`](SpanStream::advance) last looked. `None` says that there is
/// none now; after the root there is none for good.
impl Iterator for SpanStream {
    type Item = SpanRecord;

    fn next(&mut self) -> Option<SpanRecord> {
        live!(self.next())
    }
}
