//! What arrives is what was sent.

use crate::{MINUTE, exporter, oracles};
use brick_runtime::sink::Limits;
use brick_runtime::sink::otlp::{Headers, Protocol};
use brick_runtime::span::{Attributes, Resource, SpanKind, SpanRecord, Status, Value};
use serde_json::{Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

/// 2026-11-29 12:00 UTC, and odd nanoseconds: whoever rounds is found out.
const START: u64 = 1_795_953_600_123_456_789;

/// A request, its tokens, and their bricks: 1 + 20 + 20 · 60 spans of every kind and type.
fn trace() -> Vec<SpanRecord> {
    let resource = Arc::new(Resource::detect("otlp-test"));
    let mut request = SpanRecord::root("request", START, START + 20_000_000, resource)
        .kind(SpanKind::Server)
        .status(Status::Ok)
        .with(Attributes::new().and("gen_ai.usage.input_tokens", 12_u32));
    request.tid = Some(u64::from(u32::MAX) + 7);
    let mut spans = Vec::new();
    let kinds = [
        SpanKind::Internal,
        SpanKind::Client,
        SpanKind::Producer,
        SpanKind::Consumer,
    ];
    for t in 0..20 {
        let begin = START + t * 1_000_003;
        let token = request.child(format!("token {t}"), begin, begin + 999_983);
        for b in 0..60 {
            let brick = token.child("Softmax ✓", begin + b * 17, begin + b * 17 + b);
            let mut brick = brick.kind(kinds[b as usize % 4]).with(
                Attributes::new()
                    .and("brick.layer", b)
                    .and("negative", -(b as i64))
                    .and("ratio", b as f64 / 7.0)
                    .and("whole", 3.0)
                    .and("last", b == 59)
                    .and("text", format!("ä\n\"{b}\"")),
            );
            brick.logical_clock = (b > 0).then_some(b);
            if b == 30 {
                brick = brick.status(Status::Error {
                    message: "NaN at 3".into(),
                });
            }
            spans.push(brick);
        }
        spans.push(token);
    }
    spans.push(request);
    spans
}

fn value(value: &Value) -> Json {
    match value {
        Value::Text(text) => json!(["string_value", text]),
        Value::Bool(value) => json!(["bool_value", value]),
        Value::Int(value) => json!(["int_value", value]),
        Value::Double(value) => json!(["double_value", value]),
    }
}

fn values(attributes: &Attributes) -> serde_json::Map<String, Json> {
    attributes
        .iter()
        .map(|(key, v)| (key.to_owned(), value(v)))
        .collect()
}

/// What the receiver must have written for a span: numbers of kinds and codes as in trace.proto.
fn expected(span: &SpanRecord, transport: &str) -> Json {
    let mut attributes = values(&span.attributes);
    if let Some(tid) = span.tid {
        attributes.insert("thread.id".into(), json!(["int_value", tid]));
    }
    if let Some(clock) = span.logical_clock {
        let clock = json!(["int_value", clock]);
        attributes.insert("brick.logical_clock".into(), clock);
    }
    let (code, message) = match &span.status {
        Status::Unset => (0, ""),
        Status::Ok => (1, ""),
        Status::Error { message } => (2, &**message),
    };
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    };
    json!({
        "transport": transport,
        "trace_id": span.trace_id.to_string(),
        "span_id": span.span_id.to_string(),
        "parent_span_id": span.parent_span_id.map_or(String::new(), |id| id.to_string()),
        "name": span.name,
        "kind": kind,
        "start": span.start_unix_ns,
        "end": span.end_unix_ns,
        "status": code,
        "message": message,
        "attributes": attributes,
        "scope": "brick-runtime",
        "resource": values(&span.resource.attributes),
        "headers": { "authorization": "Bearer a,b=", "x-team": "kernels" },
    })
}

#[test]
fn every_field_of_every_span_as_opentelemetry_decodes_it() {
    let Some(python) = oracles::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("spans.jsonl");
    let receiver = oracles::Receiver::start(&python, &out);
    for (protocol, name, port) in [
        (Protocol::Grpc, "grpc", receiver.grpc),
        (Protocol::Http, "http", receiver.http),
    ] {
        let spans = trace();
        let headers = Headers::parse("Authorization=Bearer%20a%2Cb%3D,x-team=kernels").unwrap();
        let exporter = exporter(port, protocol, &headers, Limits::default());
        exporter.offer_all(spans.clone(), MINUTE);
        let report = exporter.finish(MINUTE);
        assert_eq!(
            (report.sent, report.dropped(), report.last_error),
            (1221, 0, None),
            "{name}"
        );

        let mut arrived: HashMap<String, Json> = HashMap::new();
        for line in fs::read_to_string(&out).unwrap().lines() {
            let span: Json = serde_json::from_str(line).unwrap();
            if span["transport"] == name {
                let id = span["span_id"].as_str().unwrap().to_owned();
                assert!(arrived.insert(id, span).is_none(), "twice");
            }
        }
        assert_eq!(arrived.len(), spans.len());
        for span in &spans {
            let arrived = &arrived[&span.span_id.to_string()];
            assert_eq!(*arrived, expected(span, name));
        }
        let resource = &arrived[&spans[0].span_id.to_string()]["resource"];
        assert_eq!(
            resource["service.name"],
            json!(["string_value", "otlp-test"])
        );
        assert_eq!(
            resource["process.pid"],
            json!(["int_value", std::process::id()])
        );
    }
}

/// rotel, a collector in Rust; its debug log is its only output.
#[test]
fn a_real_collector_takes_them() {
    let Some(python) = oracles::python() else {
        return;
    };
    let library = python.parent().unwrap().parent().unwrap().join("lib");
    let versions: Vec<_> = fs::read_dir(library)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let agent = versions
        .iter()
        .map(|python| python.join("site-packages/rotel/rotel-agent"));
    let agent = agent
        .into_iter()
        .find(|path| path.is_file())
        .expect("the package has an agent");
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let spans = trace();
        let log = through_rotel(&agent, protocol, spans.clone());
        for span in &spans {
            let id = span.span_id.to_string();
            assert!(
                log.contains(&id),
                "{protocol:?}: {id} is not in the collector's log"
            );
        }
        let last = &spans[spans.len() - 1];
        let wanted = [
            last.trace_id.to_string(),
            "service.name".into(),
            "otlp-test".into(),
            "Softmax ✓".into(),
        ];
        for text in wanted {
            assert!(
                log.contains(&text),
                "{protocol:?}: no {text:?} in the collector's log"
            );
        }
    }
}

/// Two ports that are free at this moment.
fn free_ports() -> [u16; 2] {
    let bind = |_| std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    [0, 1]
        .map(bind)
        .map(|listener| listener.local_addr().unwrap().port())
}

/// What the collector logs when `spans` are sent to it.
fn through_rotel(agent: &Path, protocol: Protocol, spans: Vec<SpanRecord>) -> String {
    let [grpc, http] = free_ports();
    let mut child = Command::new(agent)
        .args([
            "start",
            "--otlp-grpc-endpoint",
            &format!("127.0.0.1:{grpc}"),
        ])
        .args(["--otlp-http-endpoint", &format!("127.0.0.1:{http}")])
        .args(["--exporter", "blackhole", "--debug-log", "traces"])
        .args(["--debug-log-verbosity", "detailed"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let collector = oracles::Running {
        child,
        first_line: String::new(),
    };
    let port = match protocol {
        Protocol::Grpc => grpc,
        Protocol::Http => http,
    };
    // It says nothing when it listens.
    let begin = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < MINUTE, "the collector does not listen");
        std::thread::yield_now();
    }
    let mut missing: HashSet<String> = spans.iter().map(|span| span.span_id.to_string()).collect();
    let exporter = exporter(port, protocol, &Headers::new(), Limits::default());
    let sent = spans.len() as u64;
    exporter.offer_all(spans, MINUTE);
    let report = exporter.finish(MINUTE);
    assert_eq!(
        (report.sent, report.dropped(), report.last_error),
        (sent, 0, None)
    );
    // It logs what it has taken a moment later: until it has named all of them, or is silent for good.
    let mut log = String::new();
    let watchdog = Watchdog::new(collector);
    for line in stdout.lines() {
        let line = line.unwrap();
        missing.retain(|id| !line.contains(id.as_str()));
        log.push_str(&line);
        log.push('\n');
        if missing.is_empty() && log.contains("service.name") {
            break;
        }
    }
    drop(watchdog);
    log
}

/// Ends a process when it is dropped, or after a minute: then reading its output ends too.
struct Watchdog(
    Option<std::sync::mpsc::Sender<()>>,
    Option<std::thread::JoinHandle<()>>,
);

impl Watchdog {
    fn new(process: oracles::Running) -> Watchdog {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ = wait.recv_timeout(MINUTE);
            drop(process);
        });
        Watchdog(Some(done), Some(thread))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.take());
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}
