//! An annotated library whose calls arrive at an OpenTelemetry collector, as children of whoever started
//! the program.
//!
//! `tests/with-collector` listens on loopback, runs a command with `OTEL_EXPORTER_OTLP_ENDPOINT` set to
//! itself, and prints what it received as a tree:
//!
//! <!-- test: needs target/python-env/packages.txt -->
//! ```console
//! $ tests/with-collector cargo run -q --release -p spans-to-collector
//! 24 spans sent, 0 dropped
//! main
//!   request
//!     token 0
//!       layer 0
//!         Attend
//!           RmsNorm
//!           check of RmsNorm
//!         check of Attend
//!       layer 1
//!         Attend
//!           RmsNorm
//!           check of RmsNorm
//!         check of Attend
//!     token 1
//!       layer 0
//!         Attend
//!           RmsNorm
//!           check of RmsNorm
//!         check of Attend
//!       layer 1
//!         Attend
//!           RmsNorm
//!           check of RmsNorm
//!         check of Attend
//! ```
//!
//! With a collector of yours, say Jaeger on its default port, it is `cargo run -p spans-to-collector`, and
//! the trace is in its search under the service `spans-to-collector`. Nothing waits for a collector that
//! is not there:
//!
//! ```console
//! $ OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9 cargo run -q --release -p spans-to-collector
//! 0 spans sent, 24 dropped
//! last error: http://127.0.0.1:9: Unavailable, tcp connect error: transport error: Connection refused (os error 111)
//! ```

use brick_runtime::sink::otlp::{Endpoint, Otlp};
use brick_runtime::sink::{Exporter, Limits};
use brick_runtime::span::{
    Attributes, LamportClock, RecordedSpans, Resource, SpanRecord, TraceContext, keys,
};
use brick_runtime::timeline::{self, Recording, span_scope};
use brick_runtime::{brick, layer_scope, position_scope};
use std::env;
use std::error::Error;
use std::time::Duration;

brick_runtime::bricks!();

/// Scales a row to a root mean square of 1.
#[brick(id = RmsNorm, budget_us = 50, assert = "finite", flops = 3 * x.len())]
fn rms_norm(x: &mut [f32]) {
    let mean = x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32;
    let scale = 1.0 / (mean + 1e-6).sqrt();
    x.iter_mut().for_each(|v| *v *= scale);
}

/// Softmax of one row, in place; the norm before it is a brick of its own.
#[brick(id = Attend, budget_us = 100, assert = "finite", flops = 5 * x.len())]
fn attend(x: &mut [f32]) {
    rms_norm(x);
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|v| *v = (*v - max).exp());
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|v| *v /= sum);
}

/// Two tokens through two layers.
fn request() {
    let _request = span_scope("request");
    for token in 0..2 {
        let _token = position_scope(token);
        for layer in 0..2 {
            let _layer = layer_scope(layer);
            attend(&mut [0.5; 256]);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("OTEL_EXPORTER_OTLP_ENDPOINT");
    let endpoint = Endpoint::from_url(url.as_deref().unwrap_or("http://localhost:4317"))?;
    let exporter = Exporter::start(Otlp::new(&endpoint)?, Limits::default())?;

    let recording = Recording::start(timeline::Limits::default())?;
    request();
    let timeline = recording.stop();

    let mut root = SpanRecord::root("main", 0, 0, Resource::detect("spans-to-collector"));
    if let Some(caller) = TraceContext::from_env()? {
        root = root.in_context(&caller);
    }
    let model = Attributes::new().and(keys::GEN_AI_OPERATION, "text_completion");
    let spans = RecordedSpans::new(timeline, root, &LamportClock::new())
        .with("request", model.clone())
        .with("token", model);

    let patience = Duration::from_secs(5);
    exporter.offer_all(spans.iter(), patience);
    let report = exporter.finish(patience);
    println!("{} spans sent, {} dropped", report.sent, report.dropped());
    if let Some(error) = report.last_error {
        println!("last error: {error}");
    }
    Ok(())
}
