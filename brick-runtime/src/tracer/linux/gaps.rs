//! The caller's time between two calls.

use std::ops::RangeInclusive;

use super::overhead::{Moment, Overhead};

/// What observing added between calls.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    overhead: Overhead,
    /// When the one that is open began, after a call of this number.
    since: Option<(Moment, i64)>,
    /// Those that lay in the window.
    count: u64,
    added_ns: u64,
    /// What a calibration call takes when nobody observes, but for what was seen between the ends of
    /// the last one.
    pub(super) around_ns: u64,
}

impl Gaps {
    /// A call of this number has ended.
    pub(super) fn begin(&mut self, at: Moment, last: i64) {
        self.since = Some((at, last));
    }

    /// A call of the tracer's own begins: what was before it is nobody's.
    pub(super) fn forget(&mut self) {
        self.since = None;
    }

    /// A call of the number `next` begins. Between two calls of the calibration, before the window, there
    /// is nothing but what observing adds.
    pub(super) fn end(&mut self, until: Moment, next: i64, window: RangeInclusive<u64>) {
        let Some((since, last)) = self.since.take() else {
            return;
        };
        if until.at < *window.start() {
            if [last, next] == [libc::SYS_getppid; 2] {
                self.overhead.calibrate(since, until, self.around_ns);
            }
        } else if window.contains(&since.at) && window.contains(&until.at) {
            self.count += 1;
            self.added_ns += self.overhead.of(since, until).ns;
        }
    }

    /// Nanoseconds that observing added outside of so many calls. Before the first and after the last
    /// lies half of a gap each, of which no more is known; and where a gap was not seen, all of one.
    pub(super) fn added_ns(&mut self, calls: u64) -> u64 {
        self.added_ns + self.overhead.least() * calls.saturating_sub(self.count)
    }
}
