//! What the exporter's thread does next: buffer, breaker and retries together, without clock or thread.

use super::SinkError;
use super::backoff::Backoff;
use super::breaker::{BreakerState, CircuitBreaker};
use super::buffer::WatermarkedBuffer;
use crate::span::SpanRecord;
use std::time::{Duration, Instant};

/// How much an exporter keeps, and how hard it tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Spans in the buffer at which it begins to refuse; a span takes about 1 KiB.
    pub high: usize,
    /// Spans in the buffer at which it takes some again.
    pub low: usize,
    /// Spans in one batch at most, at least 1.
    pub batch: usize,
    /// A batch that is not full is sent after this time.
    pub delay: Duration,
    /// What a sink is given for one batch.
    pub timeout: Duration,
    /// Times a batch is offered before it is dropped, at least 1.
    pub attempts: u32,
    /// Pauses between them.
    pub backoff: Backoff,
    /// Failures in a row after which the sink is left alone.
    pub failures: u32,
    /// For so long.
    pub pause: Duration,
}

/// 8192 spans of memory, batches of 512, and what OpenTelemetry's SDKs do otherwise.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            high: 8192,
            low: 4096,
            batch: 512,
            delay: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            attempts: 5,
            backoff: Backoff {
                first: Duration::from_millis(200),
                most: Duration::from_secs(5),
            },
            failures: 3,
            pause: Duration::from_secs(30),
        }
    }
}

/// What became of the spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Spans that the sink took.
    pub sent: u64,
    /// Spans that found no room in the buffer.
    pub refused: u64,
    /// Spans that the sink would not have, or that were offered too often.
    pub failed: u64,
    /// Spans that were left when time was up.
    pub left: u64,
    /// Offers that failed.
    pub failures: u64,
    /// How often the circuit breaker opened.
    pub opened: u64,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
}

impl ExportReport {
    /// All spans that did not arrive, as far as the sink says. One whose answer did not come in time may
    /// have arrived.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.refused + self.failed + self.left
    }
}

/// What is to be done now.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Offer this batch, and report the outcome.
    Send(Batch),
    /// Nothing before this time, or before somebody offers or closes.
    Wait(Option<Instant>),
    /// Nothing any more.
    Done,
}

/// What became of a span that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    /// No room.
    Refused,
    /// It waits.
    Kept,
    /// It waits, and what is to be done next has changed by it.
    Due,
}

/// Spans that go together.
#[derive(Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) spans: Vec<SpanRecord>,
    failures: u32,
    not_before: Option<Instant>,
}

#[derive(Debug)]
pub(super) struct Courier {
    limits: Limits,
    buffer: WatermarkedBuffer<SpanRecord>,
    /// When the oldest span in the buffer came, or a little later.
    waiting_since: Option<Instant>,
    breaker: CircuitBreaker,
    /// A batch that failed and is due again.
    again: Option<Batch>,
    /// Spans of the batch that is being offered.
    in_flight: usize,
    closing: Option<Instant>,
    report: ExportReport,
}

impl Courier {
    pub(super) fn new(limits: Limits) -> Courier {
        Courier {
            buffer: WatermarkedBuffer::new(limits.high, limits.low),
            waiting_since: None,
            breaker: CircuitBreaker::new(limits.failures, limits.pause),
            again: None,
            in_flight: 0,
            closing: None,
            report: ExportReport::default(),
            limits,
        }
    }

    /// Takes a span, or counts it as refused.
    pub(super) fn offer(&mut self, span: SpanRecord, now: Instant) -> Offered {
        if self.closing.is_some() || self.buffer.push(span).is_err() {
            self.report.refused += 1;
            return Offered::Refused;
        }
        let first = self.waiting_since.is_none();
        self.waiting_since.get_or_insert(now);
        match first || self.buffer.len() == self.limits.batch {
            true => Offered::Due,
            false => Offered::Kept,
        }
    }

    /// Whether a span that is offered now would be taken.
    pub(super) fn has_room(&self) -> bool {
        self.closing.is_none() && self.buffer.has_room()
    }

    /// How many of the spans that are offered at `now` may be: none while there is no room, any number
    /// where waiting would not help.
    pub(super) fn room(&self, now: Instant) -> usize {
        if self.closing.is_some() || self.hopeless(now) {
            return usize::MAX;
        }
        self.buffer.room()
    }

    /// Whether spans are waiting for a sink that is not to be asked before `deadline`.
    pub(super) fn hopeless(&self, deadline: Instant) -> bool {
        matches!(self.breaker.state(), BreakerState::Open { until } if until >= deadline)
    }

    /// No more spans; those that are here are sent until `deadline`, or until the earlier one that was
    /// set before. Returns which.
    pub(super) fn close(&mut self, deadline: Instant) -> Instant {
        let deadline = self.closing.map_or(deadline, |old| old.min(deadline));
        self.closing = Some(deadline);
        deadline
    }

    /// What is to be done at `now`.
    pub(super) fn step(&mut self, now: Instant) -> Step {
        if self.closing.is_some_and(|deadline| now >= deadline) {
            return self.give_up();
        }
        let Some(due) = self.due(now) else {
            return match self.closing {
                Some(_) => Step::Done,
                None => Step::Wait(None),
            };
        };
        match self.closing {
            // What comes after the deadline need not be waited for.
            Some(deadline) if due >= deadline => self.give_up(),
            _ if due > now => Step::Wait(Some(due)),
            _ if !self.breaker.allow(now) => Step::Wait(None),
            _ => Step::Send(self.next_batch(now)),
        }
    }

    /// When the next batch may be sent; `None` where there is none.
    fn due(&self, now: Instant) -> Option<Instant> {
        let batch = match (&self.again, self.waiting_since) {
            (Some(batch), _) => batch.not_before.unwrap_or(now),
            (None, None) => return None,
            (None, Some(since)) => {
                let full = self.buffer.len() >= self.limits.batch.max(1);
                if full || self.closing.is_some() {
                    now
                } else {
                    since + self.limits.delay
                }
            }
        };
        match self.breaker.state() {
            BreakerState::Open { until } => Some(batch.max(until)),
            _ => Some(batch),
        }
    }

    fn next_batch(&mut self, now: Instant) -> Batch {
        let batch = self.again.take().unwrap_or_else(|| {
            let spans = self.buffer.take(self.limits.batch.max(1));
            self.waiting_since = (!self.buffer.is_empty()).then_some(now);
            Batch {
                spans,
                failures: 0,
                not_before: None,
            }
        });
        self.in_flight = batch.spans.len();
        batch
    }

    /// What a sink may take for the next batch.
    pub(super) fn timeout(&self, now: Instant) -> Duration {
        let left = self
            .closing
            .map(|deadline| deadline.saturating_duration_since(now));
        left.map_or(self.limits.timeout, |left| left.min(self.limits.timeout))
    }

    /// A batch was offered, and this came of it. `random` is for the pause before the next attempt.
    pub(super) fn outcome(
        &mut self,
        mut batch: Batch,
        outcome: Result<(), SinkError>,
        now: Instant,
        random: u32,
    ) {
        self.in_flight = 0;
        let n = batch.spans.len() as u64;
        let Err(error) = outcome else {
            self.breaker.succeeded();
            self.report.sent += n;
            return;
        };
        self.report.failures += 1;
        self.report.last_error = Some(error.to_string());
        match error {
            SinkError::Partial { rejected, .. } => {
                self.breaker.succeeded();
                self.report.failed += rejected.min(n);
                self.report.sent += n - rejected.min(n);
            }
            SinkError::Permanent(_) => {
                // It answered: the next batch may please it.
                self.breaker.succeeded();
                self.report.failed += n;
            }
            SinkError::Retry { after, .. } => {
                self.breaker.failed(now);
                self.report.opened = self.breaker.opened();
                batch.failures += 1;
                if batch.failures >= self.limits.attempts.max(1) {
                    self.report.failed += n;
                    return;
                }
                let pause = self.limits.backoff.pause(batch.failures, random);
                batch.not_before = Some(now + after.map_or(pause, |after| after.max(pause)));
                self.again = Some(batch);
            }
        }
    }

    fn give_up(&mut self) -> Step {
        self.report.left += self.unsent() as u64;
        self.again = None;
        self.buffer.take(usize::MAX);
        self.waiting_since = None;
        Step::Done
    }

    fn unsent(&self) -> usize {
        self.buffer.len() + self.again.as_ref().map_or(0, |batch| batch.spans.len())
    }

    /// What has become of the spans so far; those that are still here count as left.
    pub(super) fn report(&self) -> ExportReport {
        let mut report = self.report.clone();
        report.left += (self.unsent() + self.in_flight) as u64;
        report
    }
}

#[cfg(test)]
#[path = "courier_tests.rs"]
mod tests;
