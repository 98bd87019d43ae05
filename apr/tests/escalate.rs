//! `apr profile --escalate` on the built-in model, through the binary.
#![allow(missing_docs)]
#![cfg(feature = "visualization")]

#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// `apr profile` of 240 tokens: long enough for verdicts and calls to look at.
fn profile(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_apr"))
        .args(["profile", "-n", "240", "--prompt", "hello"])
        .args(args)
        .env_remove("TRACEPARENT")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {told}");
    String::from_utf8(output.stdout).unwrap()
}

fn decode(args: &[&str]) -> Value {
    let args = [args, &["--format", "json"]].concat();
    let report: Value = serde_json::from_str(&profile(&args)).unwrap();
    assert_eq!(report["schema"], "apr.profile/1");
    assert!(report["prefill"]["escalated"].is_null());
    report["decode"].clone()
}

/// Recorded calls by brick.
fn calls(decode: &Value) -> BTreeMap<String, u64> {
    let bricks = decode["bricks"]["bricks"].as_array().unwrap();
    let calls = |brick: &Value| {
        let name = brick["brick"]["name"].as_str().unwrap().to_owned();
        (name, brick["calls"].as_u64().unwrap())
    };
    bricks.iter().map(calls).collect()
}

fn us(figure: &Value) -> Option<f64> {
    figure["value"].as_f64()
}

/// A run makes the same calls each time: those that are not in the statistics are the escalated ones,
/// and what these called.
#[test]
fn escalated_calls_are_shown_and_left_out() {
    let plain = decode(&[]);
    assert!(plain["escalated"].is_null());
    assert_eq!(plain["wall_ns"]["provenance"], "measured");
    let decode = decode(&["--escalate"]);
    let escalated = &decode["escalated"];
    let bricks = escalated["bricks"].as_array().unwrap();
    assert!(!bricks.is_empty(), "{escalated}");
    let (all, recorded) = (calls(&plain), calls(&decode));
    let sum = |calls: &BTreeMap<String, u64>| calls.values().sum::<u64>();
    let left_out = escalated["calls_left_out"].as_u64().unwrap();
    assert_eq!(sum(&recorded) + left_out, sum(&all));
    let mut looked_at = 0;
    for brick in bricks {
        let (name, n) = (
            brick["brick"].as_str().unwrap(),
            brick["calls"].as_u64().unwrap(),
        );
        assert!(
            recorded[name] + n <= all[name],
            "{name}: {n} of {recorded:?}, {all:?}"
        );
        looked_at += n;
        assert_brick(brick);
    }
    assert_eq!(escalated["calls"], looked_at);
    assert!(looked_at <= left_out);
    // None of it is in the phase's time.
    assert_eq!(decode["wall_ns"]["provenance"], "derived");
    let walls: f64 = bricks
        .iter()
        .map(|brick| us(&brick["wall_us"]).unwrap())
        .sum();
    assert!(us(&escalated["left_out_ns"]).unwrap() / 1e3 >= walls);
}

/// Parts are no more than the whole, every call was made by some thread, and the thread that waits for
/// the run to end waited through all of them.
fn assert_brick(brick: &Value) {
    let n = brick["calls"].as_u64().unwrap();
    let reason = brick["reason"].as_str().unwrap();
    let cv = brick["cv"].as_f64().is_some_and(|cv| cv > 0.15);
    let efficiency = brick["efficiency"].as_f64().is_some_and(|e| e < 0.25);
    match reason {
        "unstable_timing" => assert!(cv, "{brick}"),
        "low_efficiency" => assert!(efficiency, "{brick}"),
        "both" => assert!(cv && efficiency, "{brick}"),
        other => panic!("{other}"),
    }
    let wall = us(&brick["wall_us"]).unwrap();
    assert!(wall > 0.0);
    let threads = brick["threads"].as_array().unwrap();
    let made = |thread: &Value| thread["as_caller"].as_u64().unwrap();
    assert_eq!(threads.iter().map(made).sum::<u64>(), n);
    for caller in threads.iter().filter(|thread| made(thread) > 0) {
        let name = caller["name"].as_str().unwrap();
        assert!(name.starts_with("worker "), "{name}");
    }
    let parts = brick["syscalls"].as_object().unwrap();
    assert_eq!(
        parts.keys().collect::<Vec<_>>(),
        ["futex", "ioctl", "mmap", "other", "read", "write"]
    );
    if brick["backend"] == "cpu" {
        assert!(us(&parts["futex"]["us"]).is_none() && parts["futex"]["calls"].is_null());
        assert!(!brick["passed_over"].as_array().unwrap().is_empty());
        return;
    }
    let in_calls: f64 = parts.values().map(|part| us(&part["us"]).unwrap()).sum();
    let [compute, tracer] = ["compute_us", "tracer_us"].map(|key| us(&brick[key]).unwrap());
    assert!(in_calls + compute <= wall * 1.000_001, "{brick}");
    // With what is the tracer's it is all of it.
    assert!(in_calls + compute + tracer >= wall * 0.999_999, "{brick}");
    // A thread that the helper process of `ptrace` has interrupted may take its time to wait again.
    if brick["backend"] == "perf" && brick["partial"].is_null() {
        let waits = threads.iter().find(|thread| thread["name"] == "apr");
        let waits = waits.expect("the thread that started the run");
        assert_eq!(waits["waited_in"], json!({ "futex": n }));
        assert_eq!(waits["as_caller"], 0);
    }
}

#[test]
fn people_see_a_row_for_each_brick_and_who_waited() {
    let text = profile(&["--escalate"]);
    let (_, shown) = text
        .split_once("\nescalated calls of decode: ")
        .expect("its own part");
    assert!(
        shown.contains("bricks past CV 15 % or below efficiency 25 %"),
        "{shown}"
    );
    assert!(shown.contains("one call of the brick each"), "{shown}");
    let calls: u64 = shown.split(' ').next().unwrap().parse().unwrap();
    let mut lines = shown
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("brick "));
    let header = lines.next().expect("a table");
    for column in [
        "why", "backend", "wall µs", "compute", "mmap", "futex", "ioctl", "other",
    ] {
        assert!(header.contains(column), "{header}");
    }
    let row = |line: &&str| line.contains("CV ") || line.contains("efficiency ");
    let rows = lines.take_while(row).map(|line| {
        let number = line.split_whitespace().nth(1).unwrap();
        number.parse::<u64>().unwrap()
    });
    assert_eq!(rows.sum::<u64>(), calls);
    assert!(!text.contains('\u{1b}'));
    assert!(!profile(&[]).contains("escalated"));
}

/// A collector gets a span of each escalated call beside the others, as a child of the run.
#[test]
fn escalated_calls_are_spans() {
    let Some(python) = oracles::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let receiver = oracles::Receiver::start(&python, &file);
    let url = receiver.url();
    let decode = decode(&["--escalate", "--otlp-endpoint", &url]);
    let text = fs::read_to_string(&file).unwrap();
    let spans = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (mut root, mut escalated) = (None, Vec::new());
    for span in spans {
        if span["parent_span_id"] == "" {
            root = Some(span);
        } else if !span["attributes"]["brick.escalation.reason"].is_null() {
            escalated.push(span);
        }
    }
    let root = root.expect("the run");
    assert_eq!(json!(escalated.len()), decode["escalated"]["calls"]);
    assert!(!escalated.is_empty());
    for span in escalated {
        assert_eq!(span["parent_span_id"], root["span_id"]);
        assert_eq!(span["trace_id"], root["trace_id"]);
        let time = |of: &Value, end: &str| of[end].as_u64().unwrap();
        assert!(time(&root, "start") <= time(&span, "start"), "{span}");
        assert!(time(&span, "end") <= time(&root, "end"), "{span}");
    }
}
