//! A made-up clock and a made-up collector: every pause and every count by hand.

use super::{Batch, Courier, Limits, Offered, Step};
use crate::sink::{Backoff, SinkError};
use crate::span::{Resource, SpanRecord};
use std::sync::Arc;
use std::time::{Duration, Instant};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const LIMITS: Limits = Limits {
    high: 8,
    low: 4,
    batch: 4,
    delay: ms(1000),
    timeout: ms(10_000),
    attempts: 3,
    backoff: Backoff {
        first: ms(100),
        most: ms(800),
    },
    failures: 2,
    pause: ms(5000),
};

/// A courier and the time.
struct World {
    courier: Courier,
    start: Instant,
}

impl World {
    fn new() -> World {
        World {
            courier: Courier::new(LIMITS),
            start: Instant::now(),
        }
    }

    fn at(&self, ms: u64) -> Instant {
        self.start + Duration::from_millis(ms)
    }

    /// Offers `n` spans and returns how many were taken.
    fn offer(&mut self, n: u64, at: u64) -> usize {
        let resource = Arc::new(Resource::default());
        let span = |i| SpanRecord::root("", i, i, Arc::clone(&resource));
        let now = self.at(at);
        (0..n)
            .filter(|&i| self.courier.offer(span(i), now) != Offered::Refused)
            .count()
    }

    /// The batch that is sent at `at`.
    fn sent(&mut self, at: u64) -> Batch {
        match self.courier.step(self.at(at)) {
            Step::Send(batch) => batch,
            other => panic!("at {at} ms: {other:?}"),
        }
    }

    /// Nothing is to be done at `at`, and nothing before `until`.
    fn waits(&mut self, at: u64, until: u64) {
        assert_eq!(
            self.courier.step(self.at(at)),
            Step::Wait(Some(self.at(until)))
        );
    }

    /// The outcome of a batch. No jitter: half of the pause.
    fn outcome(&mut self, batch: Batch, outcome: Result<(), SinkError>, at: u64) {
        let now = self.at(at);
        self.courier.outcome(batch, outcome, now, 0);
    }
}

fn refused() -> Result<(), SinkError> {
    Err(SinkError::retry("connection refused"))
}

#[test]
fn a_batch_goes_when_it_is_full_or_old() {
    let mut world = World::new();
    assert_eq!(world.courier.step(world.at(0)), Step::Wait(None));
    world.offer(3, 10);
    world.waits(10, 1010);
    world.offer(2, 20);
    let batch = world.sent(20);
    assert_eq!(
        batch
            .spans
            .iter()
            .map(|s| s.start_unix_ns)
            .collect::<Vec<_>>(),
        [0, 1, 2, 0]
    );
    world.outcome(batch, Ok(()), 30);
    world.waits(30, 1020);
    let batch = world.sent(1020);
    assert_eq!(batch.spans.len(), 1);
    world.outcome(batch, Ok(()), 1030);
    assert_eq!(world.courier.step(world.at(1030)), Step::Wait(None));
    assert_eq!(
        (
            world.courier.report().sent,
            world.courier.report().dropped()
        ),
        (5, 0)
    );
}

/// Who has spans keeps them while there is no room; whoever waits for the dead gives them up.
#[test]
fn room_is_what_is_left_or_anything_where_waiting_is_vain() {
    let mut world = World::new();
    let room = |world: &World, at| world.courier.room(world.at(at));
    assert_eq!(room(&world, 0), 8);
    world.offer(3, 0);
    assert_eq!(room(&world, 0), 5);
    world.offer(5, 0);
    assert_eq!(room(&world, 0), 0);
    let batch = world.sent(0);
    // Emptied to the low mark.
    assert_eq!(room(&world, 0), 4);
    world.outcome(batch, refused(), 0);
    let batch = world.sent(50);
    world.outcome(batch, refused(), 60);
    // Left alone until 5060.
    assert_eq!(room(&world, 5060), usize::MAX);
    assert_eq!(room(&world, 5061), 4);
    world.courier.close(world.at(9000));
    assert_eq!(room(&world, 5061), usize::MAX);
}

/// Pauses 50 and (breaker open) 5000 ms; the third failure was the last attempt.
#[test]
fn a_dead_collector_costs_the_spans_and_nothing_else() {
    let mut world = World::new();
    assert_eq!(world.offer(4, 0), 4);
    let batch = world.sent(0);
    world.outcome(batch, refused(), 0);
    world.waits(0, 50);
    let batch = world.sent(50);
    world.outcome(batch, refused(), 60);
    // Two in a row: nothing is sent for five seconds. Meanwhile 8 find room, and no more.
    assert_eq!(world.offer(100, 61), 8);
    world.waits(61, 5060);
    let probe = world.sent(5060);
    assert_eq!(probe.spans.len(), 4);
    world.outcome(probe, refused(), 5061);
    let report = world.courier.report();
    assert_eq!((report.failed, report.refused, report.left), (4, 92, 8));
    assert_eq!((report.failures, report.opened), (3, 2));
    assert_eq!(report.last_error.as_deref(), Some("connection refused"));
    // The end: not before 10,061 may it be asked again, so there is nothing to wait for.
    let deadline = world.at(10_000);
    world.courier.close(deadline);
    assert_eq!(world.courier.step(world.at(5062)), Step::Done);
    assert_eq!(world.courier.report().left, 8);
    assert_eq!(world.courier.report().dropped(), 104);
}

#[test]
fn it_comes_back_with_the_same_spans() {
    let mut world = World::new();
    world.offer(6, 0);
    let batch = world.sent(0);
    let ids: Vec<_> = batch.spans.iter().map(|span| span.span_id).collect();
    let after = Some(ms(700));
    world.outcome(
        batch,
        Err(SinkError::Retry {
            why: "busy".into(),
            after,
        }),
        0,
    );
    // As the collector asked, not the 50 ms of the first pause.
    world.waits(0, 700);
    let batch = world.sent(700);
    assert!(batch.spans.iter().map(|span| span.span_id).eq(ids));
    world.outcome(batch, Ok(()), 710);
    let batch = world.sent(1700);
    world.outcome(batch, Ok(()), 1700);
    let report = world.courier.report();
    assert_eq!((report.sent, report.dropped(), report.failures), (6, 0, 1));
}

#[test]
fn what_is_refused_for_good_is_not_offered_again() {
    let mut world = World::new();
    world.offer(8, 0);
    let batch = world.sent(0);
    world.outcome(batch, Err(SinkError::Permanent("no such path".into())), 0);
    let batch = world.sent(0);
    world.outcome(
        batch,
        Err(SinkError::Partial {
            rejected: 3,
            why: "too long".into(),
        }),
        0,
    );
    assert_eq!(world.courier.step(world.at(0)), Step::Wait(None));
    let report = world.courier.report();
    assert_eq!((report.sent, report.failed, report.opened), (1, 7, 0));
    assert_eq!(
        report.last_error.as_deref(),
        Some("3 spans rejected: too long")
    );
}

#[test]
fn the_end_sends_what_is_there_and_keeps_its_deadline() {
    let mut world = World::new();
    world.offer(6, 0);
    let deadline = world.at(2000);
    assert_eq!(world.courier.close(deadline), deadline);
    // A second one cannot prolong it.
    assert_eq!(world.courier.close(world.at(9000)), deadline);
    assert_eq!(world.offer(1, 0), 0);
    assert_eq!(world.courier.timeout(world.at(500)), ms(1500));
    let full = world.sent(0);
    assert_eq!(world.courier.report().left, 6, "nothing has arrived yet");
    world.outcome(full, Ok(()), 100);
    let rest = world.sent(100);
    assert_eq!(rest.spans.len(), 2);
    world.outcome(rest, refused(), 1990);
    // Due at 2040: too late.
    assert_eq!(world.courier.step(world.at(1990)), Step::Done);
    let report = world.courier.report();
    assert_eq!((report.sent, report.left, report.refused), (4, 2, 1));
}
