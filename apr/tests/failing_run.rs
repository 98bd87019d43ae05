//! A run that stops delivers what was recorded until then: spans, exports and the trace.
#![allow(missing_docs)]

#[path = "../../tests/oracles/mod.rs"]
mod oracles;
mod support;

use apr::gguf::Gguf;
use apr::model::{Generator, Halt, Model, Node, Observer, Session, Tensor, View};
use apr::tokenizer::Tokenizer;
use brick_kernels::sampling::{Sampler, SamplerConfig};
use brick_runtime::contract::{self, Policy};
use brick_runtime::timeline::{Limits, Recording};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use support::refusal::{apr, patched, with_file};
use support::writer::patch;

/// What the violation says, in its first line.
const WHY: &str = "brick `RmsNorm` broke its contract `out: no_nan`";

/// The command's arguments on the tiny llama with a NaN in a norm of layer 1; it stops there.
fn stopped(command: &[&str], options: &[&str]) -> (Output, String) {
    let file = patched(|layout, bytes| {
        let norm = layout.tensor("blk.1.attn_norm.weight");
        patch(bytes, norm.data_at + 4 * 5, f32::NAN.to_le_bytes());
    });
    with_file(&file, |model| {
        let model = ["--model", model.to_str().unwrap()];
        let output = apr(&[command, &model, options].concat());
        let told = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        // Exports come with the lines about them; the diagnosis is the last thing said.
        let (_, diagnosis) = told.split_once("apr: stopped: ").expect("a diagnosis");
        assert!(diagnosis.starts_with(WHY), "{told}");
        assert!(diagnosis.contains("\n  last good layer: 0\n"), "{told}");
        assert!(
            diagnosis
                .lines()
                .last()
                .unwrap()
                .starts_with("likely cause: weight blk.1.")
        );
        (output, told)
    })
}

const RUN: [&str; 3] = ["run", "--prompt", "hello world"];
const PROFILE: [&str; 5] = ["profile", "-n", "2", "--prompt", "hello world"];

/// Of all spans: the name without numbers, and the status code, as often as they come.
fn statuses(spans: &[Value]) -> BTreeMap<(String, u64), usize> {
    let mut counts = BTreeMap::new();
    for span in spans {
        let name = span["name"].as_str().unwrap();
        let status = span["status"].as_u64().unwrap();
        *counts.entry((name.to_owned(), status)).or_insert(0) += 1;
    }
    counts
}

/// 2 is OTLP's STATUS_CODE_ERROR, 0 unset.
#[test]
fn the_spans_of_what_failed_arrive_as_errors() {
    let Some(python) = oracles::python() else {
        return;
    };
    for (command, root, outer) in [
        (&RUN[..], "apr run", &["request", "prefill"][..]),
        (&PROFILE, "apr profile", &["warm-up"]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spans.jsonl");
        let receiver = oracles::Receiver::start(&python, &file);
        let url = receiver.url();
        let (_, told) = stopped(command, &["--otlp-endpoint", &url]);
        let text = fs::read_to_string(&file).unwrap();
        let spans: Vec<Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let n = spans.len();
        assert!(
            told.contains(&format!("spans: {n} of {n} sent to ")),
            "{told}"
        );

        let counts = statuses(&spans);
        let failed: Vec<&str> = counts
            .iter()
            .filter(|((_, status), _)| *status == 2)
            .map(|((name, _), &count)| {
                assert_eq!(count, 1, "{name}");
                name.as_str()
            })
            .collect();
        let mut expected = [&[root, "RmsNorm", "attention", "layer 1", "token 0"], outer].concat();
        expected.sort_unstable();
        assert_eq!(failed, expected);
        // Layer 0, its norms among it, ended well.
        for name in ["layer 0", "RmsNorm", "ResidualNorm", "DownProjection"] {
            assert_eq!(counts[&(name.to_owned(), 0)], 1);
        }
        assert!(!counts.contains_key(&("layer 2".to_owned(), 0)));

        for span in spans.iter().filter(|span| span["status"] == 2) {
            let message = span["message"].as_str().unwrap();
            assert!(message.starts_with(WHY), "{message}");
            assert_eq!(
                span["attributes"]["brick.failed"],
                json!(["string_value", "RmsNorm"])
            );
            let is_root = span["name"] == root;
            assert_eq!(
                message.contains("likely cause: weight blk.1.attn_norm"),
                is_root
            );
        }
        let brick = |span: &&Value| span["name"] == "RmsNorm" && span["status"] == 2;
        let brick = &spans.iter().find(brick).unwrap()["attributes"];
        let place = |key: &str| &brick[key][1];
        assert_eq!(
            (place("brick.layer"), place("brick.position")),
            (&json!(1), &json!(0))
        );
        assert_eq!(place("brick.name"), "RmsNorm");
        let root = spans.iter().find(|span| span["name"] == root).unwrap();
        let tokens = |key: &str| &root["attributes"][key][1];
        assert_eq!(
            (
                tokens("gen_ai.usage.input_tokens"),
                tokens("gen_ai.usage.output_tokens")
            ),
            (&json!(3), &json!(0))
        );
    }
}

/// The rows of a Parquet file, as pyarrow reads them.
fn rows(python: &Path, file: &str) -> Vec<Value> {
    let output = oracles::oracle(python, "parquet_rows.py")
        .arg(file)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let rows = String::from_utf8(output.stdout).unwrap();
    // The schema comes first.
    let rows = rows.lines().skip(1);
    rows.map(|row| serde_json::from_str(row).unwrap()).collect()
}

#[test]
fn every_export_is_written_of_what_there_is() {
    for (command, root) in [(&RUN[..], "apr run"), (&PROFILE, "apr profile")] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let kinds = ["chrome", "folded", "flamegraph", "dot", "graph", "parquet"];
        let exports: Vec<String> = kinds.map(|kind| format!("{kind}={}", path(kind))).to_vec();
        let flags = exports.iter().flat_map(|export| ["--export", export]);
        let (output, told) = stopped(command, &flags.collect::<Vec<_>>());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), kinds.len());
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(!printed.contains("tokens/s"), "{printed}");
        let (_, recorded) = told.split_once("recorded ").unwrap();
        let n: usize = recorded.split(' ').next().unwrap().parse().unwrap();

        let trace: Value = support::json(path("chrome").as_ref());
        let slices = trace["traceEvents"].as_array().unwrap();
        let failed = slices.iter().filter(|s| s["args"]["failed"] == "RmsNorm");
        let failed: Vec<&str> = failed.map(|s| s["name"].as_str().unwrap()).collect();
        let outer = if root == "apr run" {
            &["request", "prefill"][..]
        } else {
            &["warm-up"]
        };
        assert_eq!(
            failed,
            [outer, &["token 0", "layer 1", "attention", "RmsNorm"]].concat()
        );
        let process = slices.iter().find(|s| s["name"] == "process_name").unwrap();
        let name = process["args"]["name"].as_str().unwrap();
        assert!(name.ends_with(&format!(", stopped: {WHY}")), "{name}");

        let folded = fs::read_to_string(path("folded")).unwrap();
        let last = format!("{};token;layer;attention;RmsNorm ", outer.join(";"));
        assert_eq!(
            folded
                .lines()
                .filter(|line| line.starts_with(&last))
                .count(),
            1,
            "{folded}"
        );

        let graph = fs::read_to_string(path("graph")).unwrap();
        assert!(graph.starts_with(root), "{graph}");
        assert!(
            graph.contains(&format!("stopped: {WHY}: all of it\n")),
            "{graph}"
        );
        let dot = fs::read_to_string(path("dot")).unwrap();
        fs::write(path("dot"), dot.split_once('\n').unwrap().1).unwrap();
        let Some(python) = oracles::python() else {
            continue;
        };
        let read = |oracle: &str, args: &[&str]| {
            oracles::answer(oracles::oracle(&python, oracle).args(args)).to_string()
        };
        assert!(read("graph.py", &["dot", &path("dot")]).contains("RmsNorm"));
        assert!(read("flamegraph.py", &[&path("flamegraph")]).contains("RmsNorm"));
        read("trace_events.py", &[&path("chrome")]);
        let rows = rows(&python, &path("parquet"));
        assert_eq!(rows.len(), n + 1);
        let failed: Vec<&Value> = rows
            .iter()
            .filter(|r| r["status_code"] == "error")
            .collect();
        assert_eq!(failed.len(), outer.len() + 5);
        for row in failed {
            assert_eq!(row["attributes_json"]["brick.failed"], "RmsNorm");
            assert!(row["status_message"].as_str().unwrap().starts_with(WHY));
        }
    }
}

/// The trace is written with the diagnosis, and does not count the bricks of the replay.
#[test]
fn the_trace_has_the_diagnosis_and_the_run_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    let (_, told) = stopped(&RUN, &["--trace-output", path.to_str().unwrap()]);
    let trace = support::json(&path);
    let (_, diagnosis) = told.split_once("apr: stopped: ").unwrap();
    assert_eq!(trace["stopped"].as_str().unwrap(), diagnosis.trim_end());
    let bricks = trace["brick_profile"]["bricks"].as_array().unwrap();
    let calls = |name: &str| {
        let brick = bricks.iter().find(|b| b["brick"]["name"] == name);
        brick.map(|brick| brick["calls"].clone())
    };
    assert_eq!(
        (calls("RmsNorm"), calls("DownProjection")),
        (Some(2.into()), Some(1.into()))
    );
}

/// Stops a session at the keys of layer 1.
struct Stopper;

impl Observer for Stopper {
    fn tensor(&mut self, tensor: &Tensor<'_>, _: &View<'_>) -> Result<(), Halt> {
        match (tensor.node, tensor.at.layer) {
            (Node::Key, Some(1)) => Err("enough".into()),
            _ => Ok(()),
        }
    }
}

/// Errors that are returned, not unwound: what an observer stops, and logits that the sampler refuses,
/// where the brick that refused is known.
#[test]
fn an_error_without_a_violation_is_an_events_too() {
    let file = patched(|layout, bytes| {
        let norm = layout.tensor("output_norm.weight");
        patch(bytes, norm.data_at, f32::NAN.to_le_bytes());
    });
    let gguf = Gguf::parse(&file).unwrap();
    let (model, tokenizer) = (
        Model::load(&gguf).unwrap(),
        Tokenizer::from_gguf(&gguf).unwrap(),
    );
    contract::set_policy(Policy::Record);
    let failed = |run: &dyn Fn(&mut Session<'_>)| -> Vec<(String, String, Option<&str>)> {
        let recording = Recording::start(Limits::default()).unwrap();
        run(&mut Session::new(&model, 8).unwrap());
        let events = recording.stop().events;
        let failed = events.iter().filter_map(|event| {
            let failure = event.failure.as_ref()?;
            let message = failure.message.lines().next().unwrap().to_owned();
            Some((
                event.kind.to_string(),
                message,
                failure.brick.map(|brick| brick.name),
            ))
        });
        failed.collect()
    };
    let stopped = failed(&|_| {
        let mut stopper = Stopper;
        let mut session = Session::new(&model, 8).unwrap();
        session.observe(&mut stopper);
        assert_eq!(session.feed(&[1, 2]).unwrap_err().to_string(), "enough");
    });
    let enough = |kind: &str| (kind.to_owned(), "enough".to_owned(), None);
    assert_eq!(stopped, ["token", "layer", "attention"].map(enough));

    let refused = failed(&|session| {
        session.feed(&[1, 2]).unwrap();
        let sampler = Sampler::new(SamplerConfig::GREEDY).unwrap();
        let mut generator = Generator::new(session, &tokenizer, sampler, &[1, 2], 1);
        generator.step().unwrap_err();
    });
    contract::set_policy(Policy::Stop);
    let kept = |kind: &str, told: &str| {
        (
            kind.to_owned(),
            format!("brick `{kind}` broke its contract `{told}: no_nan`"),
            kind.to_owned(),
        )
    };
    let sampling = |kind: &str| {
        let told = "sample: `logits[0]` is NaN".to_owned();
        (kind.to_owned(), told, "Sampling".to_owned())
    };
    let refused: Vec<_> = refused
        .into_iter()
        .map(|(kind, message, brick)| (kind, message, brick.unwrap().to_owned()))
        .collect();
    let expected = [
        kept("RmsNorm", "out"),
        kept("LmHead", "logits"),
        sampling("step"),
        sampling("Sampling"),
    ];
    assert_eq!(refused, expected);
}

/// One that can't be written is told beside the diagnosis, and keeps nothing else from being delivered.
#[test]
fn a_full_disk_hides_no_diagnosis() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        eprintln!("skipped: no /dev/full");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace.json");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nowhere = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (_, told) = stopped(
        &RUN,
        &[
            "--export",
            "folded=/dev/full",
            "--trace-output",
            trace.to_str().unwrap(),
            "--otlp-endpoint",
            &nowhere,
        ],
    );
    assert!(
        told.contains("apr: cannot write folded=/dev/full: No space left"),
        "{told}"
    );
    assert!(support::json(&trace)["stopped"].is_string());
    assert!(told.contains(&format!(" sent to {nowhere}")), "{told}");
}
