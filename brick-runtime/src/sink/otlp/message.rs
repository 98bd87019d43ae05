//! Records as OTLP's messages.

use super::wire;
use crate::span::{Attributes, SpanKind, SpanRecord, Status, Value, keys};
use std::sync::Arc;

/// One request with all `spans`. Those that follow each other with one resource share it.
pub(super) fn request(spans: &[SpanRecord]) -> wire::ExportTraceServiceRequest {
    let same = |a: &SpanRecord, b: &SpanRecord| {
        Arc::ptr_eq(&a.resource, &b.resource) || a.resource == b.resource
    };
    let resource_spans = spans.chunk_by(same).map(|spans| wire::ResourceSpans {
        resource: spans.first().map(|span| wire::Resource {
            attributes: span.resource.attributes.iter().map(key_value).collect(),
        }),
        scope_spans: vec![wire::ScopeSpans {
            scope: Some(wire::InstrumentationScope {
                name: env!("CARGO_PKG_NAME").into(),
                version: env!("CARGO_PKG_VERSION").into(),
            }),
            spans: spans.iter().map(span).collect(),
        }],
    });
    wire::ExportTraceServiceRequest {
        resource_spans: resource_spans.collect(),
    }
}

fn span(record: &SpanRecord) -> wire::Span {
    let parent = record.parent_span_id.map(|id| id.bytes().to_vec());
    wire::Span {
        trace_id: record.trace_id.bytes().to_vec(),
        span_id: record.span_id.bytes().to_vec(),
        parent_span_id: parent.unwrap_or_default(),
        name: record.name.to_string(),
        kind: kind(record.kind) as i32,
        start_time_unix_nano: record.start_unix_ns,
        end_time_unix_nano: record.end_unix_ns,
        attributes: attributes(record).iter().map(key_value).collect(),
        status: status(&record.status),
    }
}

/// The record's own, and the fields that OTLP has no place for.
fn attributes(record: &SpanRecord) -> Attributes {
    let own = Attributes::new()
        .and_if(keys::THREAD_ID, record.tid)
        .and_if(keys::LOGICAL_CLOCK, record.logical_clock);
    let mut all = record.attributes.clone();
    all.extend(own);
    all
}

fn kind(kind: SpanKind) -> wire::SpanKind {
    match kind {
        SpanKind::Internal => wire::SpanKind::Internal,
        SpanKind::Server => wire::SpanKind::Server,
        SpanKind::Client => wire::SpanKind::Client,
        SpanKind::Producer => wire::SpanKind::Producer,
        SpanKind::Consumer => wire::SpanKind::Consumer,
    }
}

/// No status at all is how OTLP says "unset".
fn status(status: &Status) -> Option<wire::Status> {
    let (code, message) = match status {
        Status::Unset => return None,
        Status::Ok => (wire::StatusCode::Ok, String::new()),
        Status::Error { message } => (wire::StatusCode::Error, message.to_string()),
    };
    Some(wire::Status {
        code: code as i32,
        message,
    })
}

fn key_value((key, value): (&str, &Value)) -> wire::KeyValue {
    let value = match value {
        Value::Text(text) => wire::AnyValueKind::String(text.to_string()),
        Value::Bool(value) => wire::AnyValueKind::Bool(*value),
        Value::Int(value) => wire::AnyValueKind::Int(*value),
        Value::Double(value) => wire::AnyValueKind::Double(*value),
    };
    wire::KeyValue {
        key: key.into(),
        value: Some(wire::AnyValue { value: Some(value) }),
    }
}
