//! Starting and stopping.

use std::fmt;

use super::Timeline;

/// A recording in progress: one at a time in a process. Dropped, it stops and is forgotten.
#[derive(Debug)]
#[must_use = "the recording stops when this is dropped"]
pub struct Recording {
    #[cfg(feature = "visualization")]
    live: super::live::Live,
    #[cfg(not(feature = "visualization"))]
    never: std::convert::Infallible,
}

impl Recording {
    /// Writes down what begins from now on, on every thread. The first one of a process takes some
    /// milliseconds, to measure what an event costs.
    ///
    /// # Errors
    /// If another recording runs, the profiler is disabled, or this is a build without
    /// `visualization`.
    pub fn start(limits: Limits) -> Result<Recording, RecordingError> {
        #[cfg(feature = "visualization")]
        {
            let live = super::live::Live::start(limits)?;
            Ok(Recording { live })
        }
        #[cfg(not(feature = "visualization"))]
        {
            let _ = limits;
            Err(RecordingError::BuiltWithout)
        }
    }

    /// Stops: what was written down. What has not ended is cut off here, and says so.
    #[must_use]
    pub fn stop(self) -> Timeline {
        #[cfg(feature = "visualization")]
        {
            self.live.stop()
        }
        #[cfg(not(feature = "visualization"))]
        {
            match self.never {}
        }
    }

    /// For those who take it apart while it runs.
    #[cfg(feature = "visualization")]
    pub(crate) fn into_live(self) -> super::live::Live {
        self.live
    }

    /// There is none.
    #[cfg(not(feature = "visualization"))]
    pub(crate) fn never<T>(self) -> T {
        match self.never {}
    }
}

/// How much a [`Recording`] may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Events of all threads together, of some 220 bytes each. What begins after that is counted
    /// as dropped.
    pub events: usize,
}

impl Default for Limits {
    /// A million events: up to 220 MB.
    fn default() -> Limits {
        Limits { events: 1_000_000 }
    }
}

/// Why nothing is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordingError {
    /// Another recording runs.
    Busy,
    /// The profiler is disabled: `BrickProfiler::enable` it first.
    Disabled,
    /// There are no hooks in this build.
    BuiltWithout,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecordingError::Busy => "another recording is running",
            RecordingError::Disabled => "the profiler is disabled",
            RecordingError::BuiltWithout => crate::snapshot::BUILT_WITHOUT,
        })
    }
}

impl std::error::Error for RecordingError {}
