//! A timeline made by hand, as spans: parents, times and order worked out on paper.
#![allow(missing_docs)]

mod events;

use brick_runtime::BrickInfo;
use brick_runtime::span::{
    Attributes, LamportClock, RecordedSpans, Resource, SpanRecord, Status, TraceContext, Value,
};
use brick_runtime::timeline::{Clock, EventKind, Outcome, Thread, Timeline};
use events::event;

static SOFTMAX: BrickInfo =
    BrickInfo::new("Softmax", "kernels::row", "softmax", "src/row.rs", 7).budget_ns(2_000);

const START: u64 = 1_795_953_600_000_000_000;

/// On one thread a token, in it a layer, in that two calls, of which the second panics as the layer
/// ends; on another a call that nobody's.
fn timeline() -> Timeline {
    let mut events = vec![
        event(EventKind::Token(5), 0, (10, 100), None),
        event(EventKind::Layer(2), 0, (20, 90), Some(0)),
        event(EventKind::Brick(&SOFTMAX), 0, (30, 40), Some(1)),
        event(EventKind::Brick(&SOFTMAX), 0, (50, 90), Some(1)),
        event(EventKind::Brick(&SOFTMAX), 1, (35, 120), None),
    ];
    events[2].layer = Some(2);
    events[2].position = Some(5);
    events[2].work.flops = Some(1280);
    events[3].outcome = Outcome::Panicked;
    events[4].outcome = Outcome::Open;
    Timeline {
        clock: Clock {
            start_unix_ns: START,
            duration_ns: 120,
        },
        threads: vec![
            Thread {
                name: Some("main".into()),
                os_id: Some(77),
            },
            Thread::default(),
        ],
        dropped: 3,
        ..events::timeline(events)
    }
}

#[test]
fn as_worked_out_on_paper() {
    let caller: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        .parse()
        .unwrap();
    let clock = LamportClock::new();
    clock.receive(41);
    let root = SpanRecord::root("request", 0, 0, Resource::detect("by-hand")).in_context(&caller);
    let spans = RecordedSpans::new(timeline(), root, &clock).with(
        "token",
        Attributes::new().and("gen_ai.operation.name", "text_completion"),
    );
    let all: Vec<SpanRecord> = spans.iter().collect();
    assert_eq!(all.len(), spans.len());
    // By their ends: 40, 90 (the inner one first), 90, 100, 120, and the whole.
    let seen: Vec<_> = all
        .iter()
        .map(|s| {
            (
                &*s.name,
                s.start_unix_ns - START,
                s.end_unix_ns - START,
                s.logical_clock,
                s.tid,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("Softmax", 30, 40, Some(43), Some(77)),
            ("Softmax", 50, 90, Some(44), Some(77)),
            ("layer 2", 20, 90, Some(45), Some(77)),
            ("token 5", 10, 100, Some(46), Some(77)),
            ("Softmax", 35, 120, Some(47), None),
            ("request", 0, 120, Some(48), None),
        ]
    );
    assert_eq!(clock.now(), 48);
    let parent = |child: usize| {
        all.iter()
            .position(|s| Some(s.span_id) == all[child].parent_span_id)
    };
    assert_eq!(
        (0..5).map(parent).collect::<Vec<_>>(),
        [Some(2), Some(2), Some(3), Some(5), Some(5)]
    );
    assert_eq!(all[5].parent_span_id, Some(caller.span_id));
    assert!(all.iter().all(|s| s.trace_id == caller.trace_id));
    assert_eq!(
        all[1].status,
        Status::Error {
            message: "panicked".into()
        }
    );
    // Asked again, the same: two sinks are told one story.
    assert!(spans.iter().eq(all));
}

#[test]
fn what_is_said_of_a_brick_and_of_nothing_else() {
    let root = SpanRecord::root("request", 0, 0, Resource::default());
    let spans = RecordedSpans::new(timeline(), root, &LamportClock::new()).with(
        "token",
        Attributes::new().and("gen_ai.operation.name", "text_completion"),
    );
    let all: Vec<SpanRecord> = spans.iter().collect();
    let expected = Attributes::new()
        .and("code.function.name", "kernels::row::softmax")
        .and("code.file.path", "src/row.rs")
        .and("code.line.number", 7_i64)
        .and("brick.name", "Softmax")
        .and("brick.crate", "kernels")
        .and("brick.category", "Other")
        .and("brick.wire_id", format!("{:016x}", SOFTMAX.wire_id))
        .and("brick.budget_ns", 2_000_i64)
        .and("brick.event", "brick")
        .and("brick.layer", 2_i64)
        .and("brick.position", 5_i64)
        .and("brick.flops", 1280_i64);
    assert_eq!(all[0].attributes, expected);
    assert_eq!(
        all[4].attributes.get("brick.open"),
        Some(&Value::Bool(true))
    );
    let has = |span: &SpanRecord, prefix: &str| {
        span.attributes
            .iter()
            .any(|(key, _)| key.starts_with(prefix))
    };
    let with = |prefix: &str| {
        all.iter()
            .filter(|s| has(s, prefix))
            .map(|s| &*s.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(with("gen_ai."), ["token 5"]);
    assert_eq!(with("code."), ["Softmax"; 3]);
}
