//! Every call with its true start and end, while somebody asks for it.
//!
//! Statistics are always kept; what happened when, and inside of what, is written down only while
//! a [`Recording`] runs. It closes the hooks' fast path, so that a program that doesn't record pays
//! nothing for being able to; one that does pays some 0.1 µs per call, [measured](Timeline::ns_per_event)
//! and told. Its memory is [bounded](Limits); what did not fit is [counted](Timeline::dropped).
//!
//! ```
//! use brick_runtime::timeline::{Limits, Recording, span_scope};
//!
//! if let Ok(recording) = Recording::start(Limits::default()) {
//!     {
//!         let _request = span_scope("request");
//!         // … run some bricks …
//!     }
//!     let timeline = recording.stop();
//!     for event in &timeline.events {
//!         println!("{} {} ns", event.kind, event.duration_ns());
//!     }
//!     assert_eq!(timeline.events.len(), 1);
//! }
//! ```
//!
//! [`Timeline::paths`] sums it up by what calls what, also as folded stacks and a flamegraph;
//! [`Timeline::write_chrome`] is for Perfetto.
//!
//! # What is an event
//!
//! - a call of a brick, from the same two clock reads that its statistics are made of; calls that
//!   began before the recording are not in it, calls that had not ended are [`Outcome::Open`];
//! - a poll of an async brick: there is one event per poll, not per call, as the thread does other
//!   things in between. Polls of one call share [`Event::call`];
//! - a layer, position or [span](span_scope) scope;
//! - the check of a call's results, and the profiler's own folds, which are no brick's time either.
//!
//! What ends by a panic says so, and with the violation if that was why; the call that broke its contract
//! says so too, whatever the policy. Of an error that is returned, [`fail`] tells the events that are open.
//!
//! An event's parent is what was open on its thread when it began. Work that a pool's thread does
//! for a call on another thread has none, unless the call gives a [`handover`] along: then
//! [`Event::launched_by`] says where it came from.

mod chrome;
mod event;
mod flamegraph;
mod handover;
mod path;
mod recording;
mod span;
mod text;

#[cfg(feature = "visualization")]
pub(crate) mod assemble;
#[cfg(feature = "visualization")]
pub(crate) mod live;
#[cfg(feature = "visualization")]
pub(crate) mod log;
#[cfg(feature = "visualization")]
pub(crate) mod scale;

pub use self::event::{Event, EventKind, Failure, Outcome, Work};
pub use self::handover::{Handover, Task, handover};
pub use self::path::{PathNode, Paths};
pub use self::recording::{Limits, Recording, RecordingError};
pub use self::span::{SpanScope, fail, span_scope};

use crate::figure::Figure;

/// What a [`Recording`] wrote down.
///
/// Everything is public: a timeline may also be put together by hand, of what a device says.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// When it was.
    pub clock: Clock,
    /// The threads that did something, by the first event of each.
    pub threads: Vec<Thread>,
    /// Thread after thread; on each in the order of their begin, so that a parent comes before its
    /// children.
    pub events: Vec<Event>,
    /// Calls and scopes that are not in here: past the limit, made by an allocator while an event
    /// was written, or in destructors of thread-locals. Their children are in here, as those of the next
    /// one out.
    pub dropped: u64,
    /// Nanoseconds that a recorded call costs, the hook's included. Some is in the time of the call
    /// and some in the self time of what called it.
    pub ns_per_event: Figure,
}

/// What the times of a [`Timeline`] count from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Wall clock at the start, in nanoseconds since 1970-01-01 UTC. Read once: a clock that is set
    /// meanwhile does not bend the timeline.
    pub start_unix_ns: u64,
    /// From the start to the stop, in nanoseconds.
    pub duration_ns: u64,
}

/// A thread of a [`Timeline`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// The operating system's number for it, where that can be asked for.
    pub os_id: Option<u64>,
}

impl Timeline {
    /// The duration of each event that is not in one of its children, in nanoseconds.
    ///
    /// A scope that ends after what it was opened in (a guard that was returned) is subtracted as
    /// far as it overlaps.
    #[must_use]
    pub fn self_ns(&self) -> Vec<u64> {
        let mut own: Vec<u64> = self.events.iter().map(Event::duration_ns).collect();
        for event in &self.events {
            if let Some(parent) = event.parent {
                let end = event.end_ns.min(self.events[parent].end_ns);
                own[parent] = own[parent].saturating_sub(end.saturating_sub(event.start_ns));
            }
        }
        own
    }

    /// The event and what it was in, from the innermost out.
    pub fn ancestors(&self, event: usize) -> impl Iterator<Item = &Event> {
        let parent = |event: &&Event| event.parent.map(|parent| &self.events[parent]);
        std::iter::successors(self.events.get(event), parent)
    }
}
