//! Spans that are taken while the recording goes on: all of them, once, in order, and with no more
//! memory than what is still there.
#![cfg(feature = "visualization")]
#![allow(missing_docs)]

mod common;

use brick_runtime::sink::{Exporter, Limits as SinkLimits, LiveExport, Sink, SinkError};
use brick_runtime::span::{
    Attributes, LamportClock, Resource, SpanId, SpanRecord, SpanStream, Status, Value,
};
use brick_runtime::timeline::{Limits, Recording, fail, handover, span_scope};
use brick_runtime::{brick, layer_scope, position_scope};
use common::call;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

brick_runtime::bricks!();

#[brick(id = Checked, assert(x = "finite"))]
fn checked(x: &mut [f32]) {
    x[0] = 1.0;
}

/// Calls of a test: Miri takes a millisecond for one.
const CALLS: usize = if cfg!(miri) { 40 } else { 5000 };

/// One recording at a time, in a process.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stream(events: usize) -> SpanStream {
    let recording = Recording::start(Limits { events }).unwrap();
    let root = SpanRecord::root("root", 0, 0, Resource::default());
    SpanStream::new(recording, root, LamportClock::new())
}

/// What has ended since. A thread's last call is settled when nothing happened between two looks.
fn taken(stream: &mut SpanStream) -> Vec<SpanRecord> {
    stream.advance();
    stream.advance();
    stream.by_ref().collect()
}

/// Without the profiler's own.
fn names(spans: &[SpanRecord]) -> Vec<&str> {
    let names = spans.iter().map(|span| &*span.name);
    names.filter(|name| *name != "(profiler)").collect()
}

/// Every parent is there, around its child in real and in logical time; no id is there twice.
fn assert_tree(spans: &[SpanRecord]) -> HashMap<SpanId, &SpanRecord> {
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.span_id, span)).collect();
    assert_eq!(by_id.len(), spans.len(), "an id twice");
    for span in spans {
        assert_eq!(span.trace_id, spans[0].trace_id);
        let Some(parent) = span.parent_span_id else {
            assert_eq!(span.name, "root");
            continue;
        };
        let parent = by_id[&parent];
        assert!(parent.start_unix_ns <= span.start_unix_ns, "{span:?}");
        assert!(span.end_unix_ns <= parent.end_unix_ns, "{span:?}");
        assert!(span.logical_clock < parent.logical_clock, "{span:?}");
    }
    by_id
}

#[test]
fn what_has_ended_leaves_and_what_is_open_stays() {
    let _alone = alone();
    let brick = site!("streamed", .budget_ns(70));
    let mut stream = stream(1000).with("token", Attributes::new().and("model", "tiny"));
    assert_eq!(stream.root().name, "root");
    let request = span_scope("request");
    let mut first = Vec::new();
    for token in 0..2 {
        let open = position_scope(token);
        call(brick, || ());
        assert_eq!(names(&taken(&mut stream)), ["streamed"]);
        drop(open);
        first.extend(taken(&mut stream));
        assert_eq!(taken(&mut stream), []);
    }
    assert_eq!(names(&first), ["token 0", "token 1"]);
    assert_eq!(first[0].attributes.get("model"), Some(&"tiny".into()));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        call(brick, || std::panic::resume_unwind(Box::new(())));
    }));
    assert!(panicked.is_err());
    stream.stop();
    let mut rest: Vec<_> = stream.by_ref().collect();
    // What comes now is not part of it, and the root not complete.
    call(brick, || ());
    assert_eq!(taken(&mut stream), []);
    let kept = stream.complete(|root| root.with(Attributes::new().and("tokens", 2_u32)));
    assert!(kept.is_none());
    rest.extend(stream.by_ref());
    assert_eq!(names(&rest), ["streamed", "request", "root"]);
    let failed = rest.iter().find(|span| span.name == "streamed").unwrap();
    let message = "panicked".into();
    assert_eq!(failed.status, Status::Error { message });
    let budget = failed.attributes.get("brick.budget_ns");
    assert_eq!(budget, Some(&Value::Int(70)));
    // It had not ended.
    let request_span = rest.iter().find(|span| span.name == "request").unwrap();
    let open = request_span.attributes.get("brick.open");
    assert_eq!(open, Some(&Value::Bool(true)));
    assert_eq!(first[0].parent_span_id, Some(request_span.span_id));
    let root = &rest[rest.len() - 1];
    assert_eq!(request_span.parent_span_id, Some(root.span_id));
    assert_eq!(root.attributes.get("tokens"), Some(&Value::Int(2)));
    let dropped = root.attributes.get("brick.recording.dropped");
    assert_eq!(dropped, Some(&Value::Int(0)));
    assert_eq!((stream.next(), taken(&mut stream)), (None, vec![]));
    assert!(stream.complete(|root| root).is_none());
    drop(request);
}

/// Four threads work, a fifth takes: every call once, with its tree.
#[test]
fn nothing_is_lost_between_the_threads() {
    let _alone = alone();
    let (outer, inner) = (site!("threads outer"), site!("threads inner"));
    let mut stream = stream(1_000_000);
    let done = AtomicBool::new(false);
    let mut spans = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut spans = Vec::new();
            while !done.load(Ordering::Acquire) {
                spans.extend(taken(&mut stream));
            }
            spans
        });
        let work = || {
            for n in 0..CALLS {
                let _layer = layer_scope(n as u64 % 3);
                call(outer, || call(inner, || ()));
            }
        };
        let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        workers.into_iter().for_each(|w| w.join().unwrap());
        done.store(true, Ordering::Release);
        taker.join().unwrap()
    });
    assert!(stream.complete(|root| root).is_none());
    spans.extend(stream.by_ref());
    let by_id = assert_tree(&spans);
    let count = |name| spans.iter().filter(|span| span.name == name).count();
    for name in ["threads outer", "threads inner"] {
        assert_eq!(count(name), 4 * CALLS, "{name}");
    }
    for span in spans.iter().filter(|span| span.name == "threads inner") {
        let outer = by_id[&span.parent_span_id.unwrap()];
        let layer = by_id[&outer.parent_span_id.unwrap()];
        assert_eq!(outer.name, "threads outer");
        let number = span.attributes.get("brick.layer").unwrap();
        assert_eq!(layer.name, format!("layer {number}"));
        assert_eq!((span.tid, outer.tid), (layer.tid, layer.tid));
    }
    let counts = stream.counts();
    assert_eq!((counts.events, counts.threads), (spans.len() - 1, 4));
    assert_eq!(counts.dropped, 0);
}

/// Of a thousand times the room, nothing is dropped where it is given away in time, and all but the
/// room where it is not.
#[test]
fn memory_is_what_was_not_given_away() {
    let _alone = alone();
    let brick = site!("bounded");
    let mut stream = stream(64);
    let mut n = 0;
    for _ in 0..CALLS / 10 {
        (0..20).for_each(|_| call(brick, || ()));
        n += names(&taken(&mut stream)).len();
    }
    assert_eq!(n, CALLS / 10 * 20);
    for _ in 0..200 {
        call(brick, || ());
        // Seen, and not taken.
        stream.advance();
    }
    assert!(stream.complete(|root| root).is_none());
    let left = stream.by_ref().count();
    assert!(left <= 64 + 1, "{left}");
    let dropped = stream.counts().dropped;
    // Folds find no room either.
    assert!(dropped >= 200 - 64, "{dropped}");
}

/// What is kept has the ids, times, clocks and attributes that were given away.
#[test]
fn what_is_kept_is_what_was_told() {
    let _alone = alone();
    let (outer, inner) = (site!("kept outer"), site!("kept inner"));
    let mut stream = stream(100_000)
        .keeping()
        .with("token", Attributes::new().and("model", "tiny"));
    let work = || {
        for n in 0..30 {
            let _token = position_scope(n);
            call(outer, || call(inner, || ()));
        }
    };
    let request = span_scope("request");
    work();
    let mut told = taken(&mut stream);
    std::thread::scope(|scope| {
        let here = handover();
        scope.spawn(move || {
            let _task = here.task("elsewhere");
            work();
        });
    });
    told.extend(taken(&mut stream));
    work();
    drop(request);
    let mut kept = stream.complete(|root| root).expect("it was to be kept");
    let left_out = SpanRecord::root("left out", 1, 2, Resource::default());
    stream.add(vec![left_out.clone()]);
    kept.add([left_out]);
    told.extend(stream.by_ref());
    assert_eq!(told[told.len() - 2].name, "left out");
    assert_eq!(stream.spans(), told.len());
    let mut tree = told.clone();
    tree.remove(told.len() - 2);
    assert_tree(&tree);
    assert_eq!(kept.timeline().threads.len(), 2);
    assert_eq!(kept.len(), told.len());
    // By the time they ended, as they were told; of what was taken in one go.
    assert_eq!(kept.iter().collect::<Vec<_>>(), told);
}

/// A pool's threads: whose work it is, is what the work says and not what the thread was in.
#[test]
fn handed_over_work_is_part_of_what_handed_it_over() {
    let _alone = alone();
    let (launches, part, other) = (site!("launches"), site!("part"), site!("other"));
    let mut stream = stream(10_000).keeping();
    let _layer = layer_scope(7);
    call(launches, || {
        let here = handover();
        // On its own thread, right inside: nothing to add.
        {
            let _task = here.task("task");
            call(part, || ());
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A thread that waits for something of its own meanwhile does somebody else's work.
                call(other, || {
                    let _task = here.task("task");
                    call(part, || ());
                });
            });
        });
        // And on its own thread, but inside of something else.
        call(other, || {
            let _task = here.task("task");
            call(part, || ());
        });
    });
    let kept = stream.complete(|root| root).unwrap();
    let spans: Vec<_> = stream.by_ref().collect();
    let by_id = assert_tree(&spans);
    let mut paths: Vec<String> = spans
        .iter()
        .filter(|span| span.name == "part")
        .map(|span| {
            let parent =
                |span: &&SpanRecord| span.parent_span_id.and_then(|id| by_id.get(&id)).copied();
            let path: Vec<&str> = std::iter::successors(Some(span), parent)
                .map(|span| &*span.name)
                .collect();
            path.join(" < ")
        })
        .collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "part < launches < layer 7 < root",
            "part < task < launches < layer 7 < root",
            "part < task < launches < layer 7 < root",
        ]
    );
    let tasks = spans.iter().filter(|span| span.name == "task");
    for task in tasks {
        assert_eq!(task.attributes.get("brick.layer"), Some(&Value::Int(7)));
    }
    // In the timeline both are told: what the thread was in, and whose work it was.
    let events = &kept.timeline().events;
    let tasks: Vec<_> = events
        .iter()
        .filter(|event| event.kind.to_string() == "task")
        .map(|event| {
            let name = |index: usize| events[index].kind.to_string();
            (
                event.parent.map(name).unwrap(),
                event.launched_by.map(name).unwrap(),
            )
        })
        .collect();
    let expected = ("other".to_owned(), "launches".to_owned());
    assert_eq!(tasks, [expected.clone(), expected]);
}

/// Work that was handed over while another recording ran is nobody's in this one.
#[test]
fn a_handover_of_another_recording_says_nothing() {
    let _alone = alone();
    let (before, after) = (stream(10), span_scope("before"));
    let old = handover();
    drop((before, after));
    let mut stream = stream(10);
    let scope = span_scope("after");
    drop(old.task("task"));
    drop(scope);
    assert_eq!(names(&taken(&mut stream)), ["after"]);
    // Nor does one that was taken without any.
    drop(stream);
    let none = handover();
    let mut stream = self::stream(10);
    drop(none.task("task"));
    assert_eq!(taken(&mut stream), []);
}

/// The call that came last may fail yet: it is not gone before that is known.
#[test]
fn a_call_that_fails_after_a_look_says_so() {
    let _alone = alone();
    let mut stream = stream(1000);
    for _ in 0..2 {
        let _in = span_scope("in");
        checked(&mut [0.0]);
    }
    stream.advance();
    let first: Vec<_> = stream.by_ref().collect();
    let call = ["Checked", "check of Checked", "in"];
    assert_eq!(names(&first), call, "one is settled, one may fail yet");
    fail(&"late", Some(BrickId::Checked.info()));
    let second = taken(&mut stream);
    assert_eq!(names(&second), call);
    let message = "late".into();
    assert_eq!(second[0].status, Status::Error { message });
}

/// Hands on the names, when it is let.
struct Names {
    to: Sender<String>,
    leave: Receiver<()>,
}

impl Sink for Names {
    fn export(&mut self, spans: &[SpanRecord], _: Duration) -> Result<(), SinkError> {
        // Nobody left to wait for: everybody may.
        let _ = self.leave.recv();
        for span in spans {
            let _ = self.to.send(span.name.to_string());
        }
        Ok(())
    }
}

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A live export to [`Names`], of which eight wait: what comes out, and leave to do so.
fn live(stream: SpanStream) -> (LiveExport, Receiver<String>, Sender<()>) {
    let ((to, names), (let_go, leave)) = (channel(), channel());
    let limits = SinkLimits {
        high: 8,
        low: 4,
        batch: 4,
        delay: MS,
        ..SinkLimits::default()
    };
    let exporter = Exporter::start(Names { to, leave }, limits).unwrap();
    let live = LiveExport::start(stream, exporter, MS).unwrap();
    (live, names, let_go)
}

#[test]
fn spans_are_sent_while_the_recording_goes_on() {
    let _alone = alone();
    let (live, names, leave) = live(stream(1000));
    drop(leave);
    let request = span_scope("request");
    for name in ["one", "two"] {
        drop(span_scope(name));
        assert_eq!(names.recv_timeout(MINUTE).as_deref(), Ok(name));
    }
    drop(request);
    let (mut stream, exporter) = live.stop();
    drop(span_scope("three"));
    assert!(stream.complete(|root| root).is_none());
    exporter.offer_all(&mut stream, MINUTE);
    let report = exporter.finish(MINUTE);
    assert_eq!((report.sent, report.dropped()), (5, 0));
    let rest: Vec<String> = names.iter().collect();
    assert_eq!(rest, ["request", "three", "root"]);
}

/// A sink that hangs: spans wait where they were recorded, and none is refused.
#[test]
fn what_a_slow_sink_has_no_room_for_waits() {
    let _alone = alone();
    let (live, names, leave) = live(stream(1000));
    for _ in 0..200 {
        drop(span_scope("waits"));
    }
    let (mut stream, exporter) = live.stop();
    assert_eq!(exporter.report().refused, 0);
    assert!(stream.complete(|root| root).is_none());
    assert_eq!((stream.counts().events, stream.counts().dropped), (200, 0));
    drop(leave);
    exporter.offer_all(&mut stream, MINUTE);
    let report = exporter.finish(MINUTE);
    assert_eq!((report.sent, report.dropped()), (201, 0));
    assert_eq!(names.iter().count(), 201);
}

/// Nobody says that it is over: what was handed on is flushed, and nothing hangs.
#[test]
fn a_live_export_that_is_dropped_flushes() {
    let _alone = alone();
    let (live, names, leave) = live(stream(1000));
    drop(leave);
    drop(span_scope("one"));
    assert_eq!(names.recv_timeout(MINUTE).as_deref(), Ok("one"));
    drop(live);
    assert_eq!(names.iter().count(), 0);
    assert_eq!(names.recv().ok(), None, "the sink is gone");
    // And another recording may start.
    drop(stream(10));
}
