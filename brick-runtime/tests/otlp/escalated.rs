//! The span of an escalated call: the id that its caller is told is the one that arrives.

use crate::{MINUTE, exporter, oracles};
use brick_runtime::BrickInfo;
use brick_runtime::sink::Limits;
use brick_runtime::sink::otlp::{Headers, Protocol};
use brick_runtime::span::{Resource, TraceContext};
use brick_runtime::tracer::{BrickTracer, SyscallCategory, TracedBrickResult};
use serde_json::{Value as Json, json};
use std::fs::{self, File};
use std::io::Read;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

static LOAD: BrickInfo = BrickInfo::new("Load", module_path!(), "load", file!(), line!());

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
}

/// Reads nine times and sleeps 5 ms.
fn load() {
    let mut zero = File::open("/dev/zero").unwrap();
    let mut buffer = [1; 4096];
    for _ in 0..9 {
        zero.read_exact(&mut buffer).unwrap();
    }
    thread::sleep(Duration::from_millis(5));
}

#[test]
fn the_id_that_is_returned_is_that_of_the_span_that_arrives() {
    let Some(python) = oracles::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let receiver = oracles::Receiver::start(&python, &file);
    let exporter = exporter(
        receiver.grpc,
        Protocol::Grpc,
        &Headers::new(),
        Limits::default(),
    );
    let exporter = Arc::new(exporter);
    let parent: TraceContext = PARENT.parse().unwrap();
    let tracer = BrickTracer::new().with_spans(
        Arc::clone(&exporter),
        Resource::detect("escalation-test"),
        Some(parent),
    );
    let before = unix_ns();
    let traced: Vec<_> = (0..3).map(|_| tracer.trace_now(&LOAD, 700, load)).collect();
    let after = unix_ns();
    drop(tracer);
    let report = Arc::into_inner(exporter)
        .expect("nobody else has it")
        .finish(MINUTE);
    assert_eq!((report.sent, report.dropped()), (3, 0));

    let text = fs::read_to_string(&file).unwrap();
    let spans: Vec<Json> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(spans.len(), 3);
    for traced in &traced {
        let id = traced.otlp_span_id.as_deref().expect("it was exported");
        let span = spans
            .iter()
            .find(|span| span["span_id"] == id)
            .expect("it arrived");
        assert_eq!(span["trace_id"], parent.trace_id.to_string());
        assert_eq!(span["parent_span_id"], parent.span_id.to_string());
        assert_eq!(span["name"], "Load");
        let [start, end] = ["start", "end"].map(|key| span[key].as_u64().unwrap());
        assert!(
            before <= start && start + 5_000_000 <= end && end <= after,
            "{span}"
        );
        same(&span["attributes"], traced);
    }
}

/// What arrived is what the caller was told, and what is not known is not there.
fn same(arrived: &Json, traced: &TracedBrickResult<()>) {
    let breakdown = traced
        .syscall_breakdown
        .as_ref()
        .expect("a backend that always works");
    let text = |key: &str| arrived[key][1].as_str().map(String::from);
    assert_eq!(text("brick.escalation.reason").unwrap(), "requested");
    assert_eq!(
        text("brick.escalation.backend").unwrap(),
        breakdown.backend.name()
    );
    assert_eq!(text("brick.escalation.partial"), breakdown.partial);
    assert_eq!(
        arrived["brick.escalation.budget_us"],
        json!(["double_value", 700.0])
    );
    assert_eq!(text("code.function.name").unwrap(), "otlp::escalated::load");
    let number = |key: String| arrived[&key][1].as_f64();
    let duration = number("brick.escalation.duration_us".into()).unwrap();
    assert_eq!(duration.round(), traced.duration_us as f64);
    for (name, figure) in [
        ("compute", &breakdown.compute_us),
        ("tracer", &breakdown.tracer_us),
        ("wall", &breakdown.wall_us),
        ("cpu", &breakdown.cpu_us),
    ] {
        assert_eq!(
            number(format!("brick.syscalls.{name}_us")),
            figure.value(),
            "{name}"
        );
    }
    for category in SyscallCategory::ALL {
        let us = number(format!("brick.syscalls.{}_us", category.name()));
        assert_eq!(us, breakdown.us(category).value(), "{}", category.name());
        let calls = number(format!("brick.syscalls.{}_calls", category.name()));
        assert_eq!(calls.is_some(), us.is_some(), "{}", category.name());
    }
    if breakdown.read_us.value().is_some() {
        assert_eq!(number("brick.syscalls.read_calls".into()), Some(9.0));
    }
}
