//! What a timeline says of calls that break their contract, of panics and of errors.
#![cfg(feature = "visualization")]
#![allow(missing_docs)]

use brick_runtime::contract::{self, Policy};
use brick_runtime::span::{LamportClock, RecordedSpans, Resource, SpanRecord, Status, Value};
use brick_runtime::timeline::{
    Event, EventKind, Limits, Outcome, Recording, Timeline, fail, span_scope,
};
use brick_runtime::{brick, layer_scope, position_scope};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, PoisonError};

brick_runtime::bricks!();

#[brick(id = Checked, assert(x = "finite"))]
fn checked(x: &mut [f32], value: f32) {
    x[1] = value;
}

#[brick(id = Refusing, requires = n < 3)]
fn refusing(n: u32) -> Result<u32, String> {
    match n {
        2 => Err("two is too many".into()),
        n => Ok(n),
    }
}

/// Recording and the policy are of the process: one test at a time.
fn recorded(policy: Policy, body: impl FnOnce()) -> Timeline {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    contract::set_policy(policy);
    let recording = Recording::start(Limits::default()).unwrap();
    body();
    let timeline = recording.stop();
    contract::set_policy(Policy::Stop);
    timeline
}

/// Why, in a word, and the brick.
type Why = Option<(&'static str, Option<&'static str>)>;

/// The message and the brick of each event's failure, checks and folds aside.
fn failures(timeline: &Timeline) -> Vec<(String, Why)> {
    let events = timeline.events.iter();
    let shown = events.filter(|e| !matches!(e.kind, EventKind::Check(_) | EventKind::Fold));
    let failure = |event: &'_ Event| {
        let failure = event.failure.clone()?;
        let line = match failure.message.lines().next().unwrap() {
            "brick `Checked` broke its contract `x: no_nan`" => "contract",
            "a caller of brick `Refusing` broke its contract `requires n < 3`" => "caller",
            "two is too many" => "error",
            "later" => "later",
            other => panic!("{other}"),
        };
        Some((line, failure.brick.map(|brick| brick.name)))
    };
    shown
        .map(|event| (event.kind.to_string(), failure(event)))
        .collect()
}

/// As `apr` does it: unwinding, and caught in the middle.
fn unwinding() -> Policy {
    Policy::Handler(Arc::new(|violation| {
        resume_unwind(Box::new(violation.clone()))
    }))
}

fn named(expected: &[(&str, Why)]) -> Vec<(String, Why)> {
    expected
        .iter()
        .map(|&(name, why)| (name.to_owned(), why))
        .collect()
}

const BROKEN: Why = Some(("contract", Some("Checked")));

#[test]
fn what_a_violation_unwinds_says_why() {
    let timeline = recorded(unwinding(), || {
        let _request = span_scope("request");
        let run = || {
            let _token = position_scope(7);
            let _layer = layer_scope(2);
            checked(&mut [0.0; 3], 1.0);
            let _part = span_scope("part");
            checked(&mut [0.0; 3], f32::NAN);
        };
        assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
        // What comes after the panic was caught has nothing to do with it.
        let _after = span_scope("after");
        checked(&mut [0.0; 3], 2.0);
    });
    let expected = [
        ("request", None),
        ("token", BROKEN),
        ("layer", BROKEN),
        ("Checked", None),
        ("part", BROKEN),
        ("Checked", BROKEN),
        ("after", None),
        ("Checked", None),
    ];
    assert_eq!(failures(&timeline), named(&expected));
    // The call itself returned; what it was in was unwound.
    let outcome = |kind: EventKind| {
        timeline
            .events
            .iter()
            .find(|e| e.kind == kind)
            .unwrap()
            .outcome
    };
    assert_eq!(outcome(EventKind::Layer(2)), Outcome::Panicked);
    assert_eq!(outcome(EventKind::Span("after")), Outcome::Ended);
    let failed = timeline.events.iter().filter(|e| e.failure.is_some());
    let ended: Vec<_> = failed.filter(|e| e.outcome == Outcome::Ended).collect();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].kind.to_string(), "Checked");

    let root = SpanRecord::root("run", 0, 0, Resource::detect("test"));
    let spans = RecordedSpans::new(timeline, root, &LamportClock::new());
    let failed: Vec<SpanRecord> = spans.iter().filter(|s| s.status != Status::Unset).collect();
    let names: Vec<&str> = failed.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["Checked", "part", "layer 2", "token 7"]);
    for span in failed {
        let Status::Error { message } = &span.status else {
            panic!("{:?}", span.status);
        };
        assert!(
            message.contains(", layer 2, position 7\n  first at x[1] = NaN"),
            "{message}"
        );
        assert_eq!(
            span.attributes.get("brick.failed"),
            Some(&Value::from("Checked"))
        );
    }
}

#[test]
fn a_violation_that_is_only_kept_is_the_calls_alone() {
    let timeline = recorded(Policy::Record, || {
        let _request = span_scope("request");
        checked(&mut [0.0; 3], f32::NAN);
        checked(&mut [0.0; 3], 1.0);
    });
    let expected = [("request", None), ("Checked", BROKEN), ("Checked", None)];
    assert_eq!(failures(&timeline), named(&expected));
    let mut json = Vec::new();
    timeline.write_chrome("test", &mut json).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let slices = trace["traceEvents"].as_array().unwrap().iter();
    let failed: Vec<_> = slices.filter(|s| s["args"]["error"].is_string()).collect();
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (&failed[0]["name"], &failed[0]["args"]["failed"]),
        (&"Checked".into(), &"Checked".into())
    );
}

/// It never began: no earlier call is to blame.
#[test]
fn a_caller_that_breaks_a_contract_is_what_failed() {
    let timeline = recorded(unwinding(), || {
        let run = || {
            let _caller = span_scope("caller");
            refusing(1).unwrap();
            refusing(3)
        };
        assert!(catch_unwind(run).is_err());
    });
    let expected = [
        ("caller", Some(("caller", Some("Refusing")))),
        ("Refusing", None),
    ];
    assert_eq!(failures(&timeline), named(&expected));
}

#[test]
fn an_error_is_that_of_what_is_open() {
    let timeline = recorded(Policy::Stop, || {
        let _request = span_scope("request");
        drop(span_scope("before"));
        {
            let _step = span_scope("step");
            refusing(1).unwrap();
            let error = refusing(2).unwrap_err();
            fail(&error, Some(BrickId::Refusing.info()));
        }
        // The first reason stays; a brick that was not the last thing to run is not to blame.
        drop(span_scope("last"));
        fail(&"later", Some(BrickId::Refusing.info()));
    });
    let why = Some(("error", Some("Refusing")));
    let expected = [
        ("request", why),
        ("before", None),
        ("step", why),
        ("Refusing", None),
        ("Refusing", why),
        ("last", None),
    ];
    assert_eq!(failures(&timeline), named(&expected));
}
