//! The exporter with its thread: sinks that are slow, stuck, panicking, or well. Nothing here looks
//! at how long anything took.
#![allow(missing_docs)]

use brick_runtime::sink::{Exporter, Limits, Sink, SinkError};
use brick_runtime::span::{Resource, SpanId, SpanRecord};
use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn span(resource: &Arc<Resource>) -> SpanRecord {
    SpanRecord::root("span", 1, 2, Arc::clone(resource))
}

/// Keeps the ids; before each batch it says so and waits for leave.
struct Gate {
    entered: Sender<usize>,
    leave: Receiver<Result<(), SinkError>>,
    ids: Arc<Mutex<Vec<SpanId>>>,
}

impl Sink for Gate {
    fn export(&mut self, spans: &[SpanRecord], _: Duration) -> Result<(), SinkError> {
        let _ = self.entered.send(spans.len());
        // Without leave it is stuck until the test is over.
        self.leave.recv().unwrap_or(Ok(()))?;
        self.ids
            .lock()
            .unwrap()
            .extend(spans.iter().map(|span| span.span_id));
        Ok(())
    }
}

struct Ends {
    entered: Receiver<usize>,
    leave: Sender<Result<(), SinkError>>,
    ids: Arc<Mutex<Vec<SpanId>>>,
}

fn gate() -> (Gate, Ends) {
    let (entered, is_in) = channel();
    let (let_go, leave) = channel();
    let ids = Arc::default();
    let gate = Gate {
        entered,
        leave,
        ids: Arc::clone(&ids),
    };
    (
        gate,
        Ends {
            entered: is_in,
            leave: let_go,
            ids,
        },
    )
}

/// Takes everything.
struct Open(Arc<Mutex<Vec<SpanId>>>);

impl Sink for Open {
    fn export(&mut self, spans: &[SpanRecord], _: Duration) -> Result<(), SinkError> {
        self.0
            .lock()
            .unwrap()
            .extend(spans.iter().map(|span| span.span_id));
        Ok(())
    }
}

#[test]
fn every_span_of_every_thread_arrives_once() {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let limits = Limits {
        high: 100_000,
        ..Limits::default()
    };
    let exporter = Exporter::start(Open(Arc::clone(&ids)), limits).unwrap();
    let resource = Arc::new(Resource::default());
    let offer = || {
        let spans = (0..5000).map(|_| span(&resource));
        let offered = spans.map(|span| {
            let id = span.span_id;
            assert!(exporter.offer(span));
            id
        });
        offered.collect::<Vec<_>>()
    };
    let offered: HashSet<SpanId> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(offer)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let report = exporter.finish(MINUTE);
    assert_eq!(
        (report.sent, report.dropped(), report.last_error),
        (20_000, 0, None)
    );
    let arrived = ids.lock().unwrap();
    assert_eq!(arrived.len(), 20_000);
    assert_eq!(arrived.iter().copied().collect::<HashSet<_>>(), offered);
}

/// While the sink hangs, offers return, the buffer fills and the rest is counted; the end comes at the
/// deadline, with the sink still hanging.
#[test]
fn a_stuck_sink_holds_nobody_back() {
    let (sink, ends) = gate();
    let limits = Limits {
        high: 64,
        low: 32,
        batch: 16,
        ..Limits::default()
    };
    let exporter = Exporter::start(sink, limits).unwrap();
    let resource = Arc::new(Resource::default());
    for _ in 0..16 {
        exporter.offer(span(&resource));
    }
    assert_eq!(ends.entered.recv(), Ok(16));
    let taken = (0..1000)
        .filter(|_| exporter.offer(span(&resource)))
        .count();
    assert_eq!(taken, 64);
    exporter.offer_all([span(&resource)], Duration::from_millis(5));
    // From a thread: without a deadline this would hang, and not fail.
    let (told, report) = channel();
    std::thread::spawn(move || told.send(exporter.finish(Duration::from_millis(20))));
    let report = report.recv_timeout(MINUTE).expect("it waits for the sink");
    assert_eq!((report.sent, report.refused, report.left), (0, 937, 80));
    assert_eq!(report.dropped(), 16 + 1000 + 1);
    drop(ends.leave);
}

/// Waiting for room: a thousand spans through a buffer of eight.
#[test]
fn a_patient_end_loses_nothing() {
    let ids = Arc::new(Mutex::new(Vec::new()));
    let limits = Limits {
        high: 8,
        low: 4,
        batch: 3,
        ..Limits::default()
    };
    let exporter = Exporter::start(Open(Arc::clone(&ids)), limits).unwrap();
    let resource = Arc::new(Resource::default());
    let spans: Vec<_> = (0..1000).map(|_| span(&resource)).collect();
    let offered: Vec<_> = spans.iter().map(|span| span.span_id).collect();
    exporter.offer_all(spans, MINUTE);
    let report = exporter.finish(MINUTE);
    assert_eq!((report.sent, report.dropped()), (1000, 0));
    assert_eq!(*ids.lock().unwrap(), offered, "in another order");
}

#[test]
fn a_batch_that_failed_is_offered_again() {
    let (sink, ends) = gate();
    let exporter = Exporter::start(sink, Limits::default()).unwrap();
    exporter.offer(span(&Arc::default()));
    ends.leave.send(Err(SinkError::retry("busy"))).unwrap();
    ends.leave.send(Ok(())).unwrap();
    let report = exporter.finish(MINUTE);
    assert_eq!((report.sent, report.dropped(), report.failures), (1, 0, 1));
    assert_eq!(report.last_error.as_deref(), Some("busy"));
    assert_eq!(ends.entered.iter().collect::<Vec<_>>(), [1, 1]);
    assert_eq!(ends.ids.lock().unwrap().len(), 1);
}

struct Panics;

impl Sink for Panics {
    fn export(&mut self, _: &[SpanRecord], _: Duration) -> Result<(), SinkError> {
        panic!("a sink's own fault");
    }
}

#[test]
fn a_sink_that_panics_loses_its_spans_and_no_more() {
    let exporter = Exporter::start(Panics, Limits::default()).unwrap();
    exporter.offer(span(&Arc::default()));
    let report = exporter.finish(MINUTE);
    assert_eq!((report.failed, report.left), (1, 0));
    assert_eq!(report.last_error.as_deref(), Some("the sink panicked"));
}
