//! Spans to collectors: one that decodes with OpenTelemetry's own code, a real one, and those that
//! are dead, slow, or say no.
#![allow(missing_docs)]

#[path = "../../../tests/oracles/mod.rs"]
mod oracles;

mod arrival;
#[cfg(all(feature = "visualization", feature = "tracer"))]
mod escalated;
mod refusal;

use brick_runtime::sink::otlp::{Endpoint, Headers, Otlp, Protocol};
use brick_runtime::sink::{Exporter, Limits};
use std::time::Duration;

/// Longer than anything here takes.
const MINUTE: Duration = Duration::from_secs(60);

/// An exporter to `127.0.0.1:port`.
fn exporter(port: u16, protocol: Protocol, headers: &Headers, limits: Limits) -> Exporter {
    let url = format!("http://127.0.0.1:{port}");
    let endpoint = Endpoint::new(&url, Some(protocol)).unwrap();
    Exporter::start(Otlp::with_headers(&endpoint, headers).unwrap(), limits).unwrap()
}
