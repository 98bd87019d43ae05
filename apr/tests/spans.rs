//! `--otlp-endpoint` and `--export parquet=…` on the built-in model, through the real binary.
#![allow(missing_docs)]

#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// `apr run` of three tokens, with the arguments and the environment given.
fn run(args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_apr"))
        .args(["run", "--prompt", "hello", "-n", "3"])
        .args(args)
        .env_remove("TRACEPARENT")
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// Standard error of a run that went well.
fn told(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    told
}

/// Spans that were recorded: the events, and the root.
fn recorded(told: &str) -> usize {
    let (_, rest) = told.split_once("recorded ").expect("it says how many");
    rest.split(' ').next().unwrap().parse::<usize>().unwrap() + 1
}

fn received(file: &Path) -> HashMap<String, Value> {
    let text = fs::read_to_string(file).unwrap();
    let spans = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let by_id = spans.map(|span| (span["span_id"].as_str().unwrap().to_owned(), span));
    let by_id: Vec<_> = by_id.collect();
    let n = by_id.len();
    let spans = HashMap::from_iter(by_id);
    assert_eq!(spans.len(), n, "an id twice");
    spans
}

fn has(span: &Value, prefix: &str) -> bool {
    let attributes = span["attributes"].as_object().unwrap();
    attributes.keys().any(|key| key.starts_with(prefix))
}

/// The names from the span out to the root.
fn path<'a>(spans: &'a HashMap<String, Value>, span: &'a Value) -> Vec<&'a str> {
    let parent = |span: &&'a Value| spans.get(span["parent_span_id"].as_str().unwrap());
    std::iter::successors(Some(span), parent)
        .map(|span| span["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_run_arrives_with_its_tree_times_and_attributes() {
    let Some(python) = oracles::python() else {
        return;
    };
    let plain = run(&[], &[]);
    for protocol in ["grpc", "http/protobuf"] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spans.jsonl");
        let receiver = oracles::Receiver::start(&python, &file);
        let port = match protocol {
            "grpc" => receiver.grpc,
            _ => receiver.http,
        };
        let url = format!("http://127.0.0.1:{port}");
        let traceparent = format!("00-{TRACE}-{CALLER}-01");
        let output = run(
            &["--otlp-endpoint", &url],
            &[
                ("TRACEPARENT", &traceparent),
                ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
            ],
        );
        let told = told(&output);
        assert_eq!(output.stdout, plain.stdout);
        let n = recorded(&told);
        assert!(
            told.contains(&format!("spans: {n} of {n} sent to {url}")),
            "{told}"
        );
        assert!(told.contains("0 dropped (measured)") && told.contains(&format!("trace {TRACE}")));

        let spans = received(&file);
        assert_eq!(spans.len(), n);
        for span in spans.values() {
            assert_eq!(span["trace_id"], TRACE);
            assert_eq!(
                span["resource"]["service.name"],
                json!(["string_value", "apr"])
            );
            let time = |of: &Value, end: &str| of[end].as_u64().unwrap();
            match spans.get(span["parent_span_id"].as_str().unwrap()) {
                Some(parent) => {
                    let within = time(parent, "start") <= time(span, "start")
                        && time(span, "end") <= time(parent, "end");
                    assert!(within, "{span} is not within {parent}");
                }
                None => {
                    assert_eq!(
                        (&span["name"], &span["parent_span_id"]),
                        (&json!("apr run"), &json!(CALLER))
                    );
                    let attributes = &span["attributes"];
                    assert_eq!(
                        attributes["gen_ai.usage.output_tokens"],
                        json!(["int_value", 3])
                    );
                    assert_eq!(
                        attributes["brick.recording.dropped"],
                        json!(["int_value", 0])
                    );
                }
            }
        }
        let kinds: BTreeSet<String> = spans
            .values()
            .filter(|span| has(span, "gen_ai."))
            .map(|span| {
                span["name"]
                    .as_str()
                    .unwrap()
                    .split(' ')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(
            Vec::from_iter(kinds),
            ["apr", "token"],
            "gen_ai.* is on requests and tokens only"
        );
        let bricks = spans.values().filter(|span| has(span, "code."));
        let paths: BTreeSet<String> = bricks.map(|span| path(&spans, span).join(" < ")).collect();
        let deep = "DownProjection < feed forward < layer 2 < token";
        assert!(
            paths.iter().any(|path| path.starts_with(deep)),
            "{paths:#?}"
        );
        assert!(
            paths.iter().all(|path| path.ends_with(" < apr run")),
            "{paths:#?}"
        );
    }
}

/// The run stands still after its prompt, for nobody reads what it prints: the prompt's spans are
/// there, and stay when it is killed.
#[test]
fn spans_arrive_while_the_run_goes_on() {
    let Some(python) = oracles::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let receiver = oracles::Receiver::start(&python, &file);
    let url = receiver.url();
    let (_reader, mut full) = std::io::pipe().unwrap();
    // What a pipe holds.
    full.write_all(&[b' '; 65536]).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_apr"))
        .args(["run", "--prompt", "hello", "-n", "3"])
        .args(["--otlp-endpoint", &url])
        .stdout(full)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let names = || -> BTreeSet<String> {
        let spans = received(&file).into_values();
        spans
            .map(|span| span["name"].as_str().unwrap().to_owned())
            .collect()
    };
    while !names().contains("prefill") {
        assert!(
            begin.elapsed().as_secs() < 60,
            "no span of a run that goes on"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(child.try_wait().unwrap().is_none(), "it is over");
    child.kill().unwrap();
    child.wait().unwrap();
    let names = names();
    let of_the_prompt = [
        "token 0",
        "layer 0",
        "DownProjection",
        "Tokenize",
        "prefill",
    ];
    for name in of_the_prompt {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    // What had not ended is not there.
    for name in ["apr run", "request", "decode"] {
        assert!(!names.contains(name), "{name}: {names:?}");
    }
}

/// What the pool's other thread does is part of the kernel that asked for it.
#[test]
fn the_work_of_two_threads_is_one_tree() {
    let Some(python) = oracles::python() else {
        return;
    };
    let prompt = "a long text that is worth the work of two threads ".repeat(8);
    let mut tries = 0;
    let spans = loop {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("spans.jsonl");
        let receiver = oracles::Receiver::start(&python, &file);
        let url = receiver.url();
        let args = ["run", "--threads", "2", "-n", "2", "--otlp-endpoint", &url];
        let output = Command::new(env!("CARGO_BIN_EXE_apr"))
            .args(args)
            .args(["--prompt", &prompt])
            .output()
            .unwrap();
        told(&output);
        let spans = received(&file);
        if spans.values().any(|span| launcher(&spans, span).is_some()) {
            break spans;
        }
        // One thread may have done it all before the other was awake.
        tries += 1;
        assert!(tries < 20, "no thread helps the other");
    };
    for span in spans.values() {
        let Some(launched) = launcher(&spans, span) else {
            continue;
        };
        let path = path(&spans, span);
        assert!(path.ends_with(&["request", "apr run"]), "{path:?}");
        // The other thread may help with a single token too.
        let phase = |name: &&str| ["prefill", "decode"].contains(name);
        assert!(path.iter().any(phase), "{path:?}");
        // What every layer uses, and what comes after them, is in none.
        let in_none = |name: &&str| ["RopeAngles", "LmHead"].contains(name);
        let in_layer = path.iter().any(|name| name.starts_with("layer "));
        assert_ne!(in_layer, path.iter().any(in_none), "{path:?}");
        let kernel = |name: &&str| {
            name.ends_with("Projection") || name.ends_with("Attention") || in_none(name)
        };
        assert!(
            path.iter().any(kernel) || has(launched, "code."),
            "{path:?}"
        );
        assert_eq!(
            span["attributes"]["brick.layer"], launched["attributes"]["brick.layer"],
            "{path:?}"
        );
    }
}

/// The parent of a span, if that is of another thread.
fn launcher<'a>(spans: &'a HashMap<String, Value>, span: &Value) -> Option<&'a Value> {
    let thread = |span: &Value| span["attributes"]["thread.id"][1].as_u64();
    let parent = spans.get(span["parent_span_id"].as_str().unwrap())?;
    // The root is of none.
    (thread(parent)? != thread(span)?).then_some(parent)
}

/// OpenTelemetry's variables alone: where to, what to say, who it is.
#[test]
fn as_the_environment_says() {
    let Some(python) = oracles::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let receiver = oracles::Receiver::start(&python, &file);
    let url = receiver.url();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20secret,x-team=kernels",
        ),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "9000"),
        ("OTEL_SERVICE_NAME", "named"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=other,deployment.environment=a%2Cb",
        ),
    ];
    let output = run(&[], &environment);
    let told = told(&output);
    let n = recorded(&told);
    assert!(
        told.contains(&format!("spans: {n} of {n} sent to {url}")),
        "{told}"
    );
    assert!(!told.contains("secret"), "{told}");
    let spans = received(&file);
    assert_eq!(spans.len(), n);
    for span in spans.values() {
        let headers = json!({ "authorization": "Bearer secret", "x-team": "kernels" });
        assert_eq!(span["headers"], headers);
        let resource = &span["resource"];
        assert_eq!(resource["service.name"], json!(["string_value", "named"]));
        assert_eq!(
            resource["deployment.environment"],
            json!(["string_value", "a,b"])
        );
    }
    // Who names a collector means that one; and no traces are no traces.
    let off = run(&[], &[environment[0], ("OTEL_TRACES_EXPORTER", "none")]);
    assert!(!self::told(&off).contains("recorded"));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let flag = self::told(&run(&["--otlp-endpoint", &dead], &environment));
    assert!(flag.contains(&format!("sent to {dead}")), "{flag}");
    for (variable, value, why) in [
        (
            "OTEL_EXPORTER_OTLP_COMPRESSION",
            "gzip",
            "compression is not built in",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "soon",
            "expected milliseconds",
        ),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "not of the form"),
    ] {
        let output = run(&[], &[environment[0], (variable, value)]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.contains(variable) && told.contains(why), "{told}");
    }
    let output = run(
        &[],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "https://localhost:4317")],
    );
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("TLS is not built in"), "{told}");
}

/// A collector that is away costs a run its spans, which are counted, and nothing else.
#[test]
fn a_dead_collector() {
    let plain = run(&[], &[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let output = run(&["--otlp-endpoint", &url], &[]);
    let told = told(&output);
    assert_eq!(output.stdout, plain.stdout);
    let n = recorded(&told);
    assert!(
        told.contains(&format!(
            "spans: 0 of {n} sent to {url} (grpc), {n} dropped"
        )),
        "{told}"
    );
    assert!(told.contains("Connection refused"), "{told}");
}

#[test]
fn a_caller_that_is_not_sampled_and_one_that_is_none() {
    let nowhere = ["--otlp-endpoint", "http://127.0.0.1:9"];
    let unsampled = format!("00-{TRACE}-{CALLER}-00");
    let told_unsampled = told(&run(&nowhere, &[("TRACEPARENT", &unsampled)]));
    assert!(
        told_unsampled.contains("spans: none sent"),
        "{told_unsampled}"
    );
    assert!(!told_unsampled.contains("recorded"), "{told_unsampled}");

    let wrong = told(&run(&nowhere, &[("TRACEPARENT", "00-abc")]));
    assert!(
        wrong.contains("TRACEPARENT is left aside: a traceparent has the form"),
        "{wrong}"
    );
    assert!(!wrong.contains(TRACE), "{wrong}");
}

#[test]
fn endpoints_that_are_none() {
    for (url, why) in [
        ("localhost:4317", "expected http://HOST:PORT"),
        ("https://localhost:4317", "TLS is not built in"),
    ] {
        let output = run(&["--otlp-endpoint", url], &[]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(why), "{told}");
    }
    let output = run(
        &["--otlp-endpoint", "http://localhost"],
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")],
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"http/json\""));
}

#[test]
fn a_run_as_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.parquet");
    let export = format!("parquet={}", file.display());
    let output = run(&["--export", &export], &[]);
    let n = recorded(&told(&output));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    let Some(python) = oracles::python() else {
        return;
    };
    let rows = oracles::oracle(&python, "parquet_rows.py")
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        rows.status.success(),
        "{}",
        String::from_utf8_lossy(&rows.stderr)
    );
    let rows = String::from_utf8(rows.stdout).unwrap();
    let rows: Vec<Value> = rows
        .lines()
        .skip(1)
        .map(|row| serde_json::from_str(row).unwrap())
        .collect();
    assert_eq!(rows.len(), n);
    let roots: Vec<&Value> = rows
        .iter()
        .filter(|row| row["parent_span_id"].is_null())
        .collect();
    assert_eq!(roots.len(), 1);
    assert_eq!(roots[0]["attributes_json"]["gen_ai.usage.output_tokens"], 3);
}
