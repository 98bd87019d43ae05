//! Spans in Parquet, read back by pyarrow.
#![allow(missing_docs)]

#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use brick_runtime::sink::parquet::{WriteError, write_spans};
use brick_runtime::span::{Attributes, Resource, SpanKind, SpanRecord, Status, Value};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

const START: u64 = 1_795_953_600_123_456_789;

/// More than fit in one row group.
fn spans() -> Vec<SpanRecord> {
    let resource = Resource::detect("parquet-test").with(Attributes::new().and("rack", "ä\"7\""));
    let root =
        SpanRecord::root("request", START, START + 1, Arc::new(resource)).kind(SpanKind::Server);
    let mut spans = vec![root];
    for i in 0..20_000_u64 {
        let mut span = spans[0]
            .child(format!("brick {}", i % 13), START + i, START + i * 3)
            .with(
                Attributes::new()
                    .and("layer", i)
                    .and("minus", -1 - i as i64)
                    .and("ratio", i as f64 / 3.0)
                    .and("nan", f64::NAN)
                    .and("first", i == 0),
            );
        span.logical_clock = (i % 3 > 0).then_some(i);
        span.tid = (i % 2 > 0).then_some(u64::MAX - i);
        span.status = match i % 5 {
            0 => Status::Error {
                message: "NaN\nat 3".into(),
            },
            1 => Status::Ok,
            _ => Status::Unset,
        };
        spans.push(span);
    }
    spans
}

fn object(attributes: &Attributes) -> Json {
    let value = |value: &Value| match value {
        Value::Text(text) => json!(text),
        Value::Bool(value) => json!(value),
        Value::Int(value) => json!(value),
        Value::Double(value) if value.is_nan() => json!("NaN"),
        Value::Double(value) => json!(value),
    };
    attributes
        .iter()
        .map(|(key, v)| (key.to_owned(), value(v)))
        .collect()
}

/// As tests/oracles/parquet_rows.py writes a row.
fn expected(span: &SpanRecord) -> Json {
    json!({
        "trace_id": span.trace_id.to_string(),
        "span_id": span.span_id.to_string(),
        "parent_span_id": span.parent_span_id.map(|id| id.to_string()),
        "span_name": span.name,
        "span_kind": if span.kind == SpanKind::Server { "server" } else { "internal" },
        "start_time_nanos": span.start_unix_ns,
        "end_time_nanos": span.end_unix_ns,
        "duration_nanos": span.end_unix_ns - span.start_unix_ns,
        "logical_clock": span.logical_clock,
        "status_code": match span.status {
            Status::Unset => "unset",
            Status::Ok => "ok",
            Status::Error { .. } => "error",
        },
        "status_message": match &span.status {
            Status::Error { message } => Some(message),
            _ => None,
        },
        "attributes_json": object(&span.attributes),
        "resource_json": object(&span.resource.attributes),
        "process_id": std::process::id(),
        "thread_id": span.tid,
    })
}

#[test]
fn pyarrow_reads_every_row() {
    let Some(python) = oracles::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spans.parquet");
    let spans = spans();
    assert_eq!(
        write_spans(File::create(&path).unwrap(), spans.clone()).unwrap(),
        20_001
    );
    let read = oracles::oracle(&python, "parquet_rows.py")
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    let text = String::from_utf8(read.stdout).unwrap();
    let mut lines = text.lines();
    let head: Json = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(head["schema"], "brick.spans/1");
    assert_eq!(head["types"]["start_time_nanos"], "timestamp[ns, tz=UTC]");
    assert_eq!(head["types"]["logical_clock"], "uint64");
    assert_eq!(head["types"]["trace_id"], "fixed_size_binary[16]");
    let rows: Vec<Json> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), spans.len());
    for (row, span) in rows.iter().zip(&spans) {
        assert_eq!(*row, expected(span));
    }
}

/// Takes a few bytes and is full.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = bytes.len().min(self.0);
        self.0 -= n;
        match n {
            0 => Err(io::Error::from(io::ErrorKind::StorageFull)),
            n => Ok(n),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let root = SpanRecord::root("a", 1, 2, Resource::default());
    let late = SpanRecord {
        end_unix_ns: u64::MAX,
        ..root.clone()
    };
    let error = write_spans(io::sink(), [root.clone(), late]).unwrap_err();
    assert!(
        matches!(error, WriteError::Time { unix_ns: u64::MAX }),
        "{error}"
    );
    let whole = {
        let mut file = Vec::new();
        assert_eq!(write_spans(&mut file, [root.clone()]).unwrap(), 1);
        file.len()
    };
    for room in [0, 3, whole / 2, whole - 1] {
        let error = write_spans(Full(room), [root.clone()])
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("no storage space"),
            "{room} of {whole} bytes: {error}"
        );
    }
}
