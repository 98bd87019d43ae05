//! A sink of one's own: it writes spans as logfmt, and fails once to show that nothing is lost by it.
//!
//! ```console
//! $ cargo run --release -p custom-sink
//! span="Scale" clock=1 flops=1024
//! span="layer 0" clock=2
//! span="Scale" clock=3 flops=1024
//! span="layer 1" clock=4
//! span="request" clock=5
//! span="custom-sink" clock=6
//! 6 spans sent, 0 dropped, failed attempts: 1
//! ```
//!
//! Without the feature `visualization` there is nothing to record:
//!
//! ```console
//! $ cargo run --release -p custom-sink --no-default-features
//! nothing recorded: built without `visualization`
//! ```

use brick_runtime::sink::{Exporter, Limits, Sink, SinkError};
use brick_runtime::span::{LamportClock, RecordedSpans, Resource, SpanRecord, keys};
use brick_runtime::timeline::{self, Recording, span_scope};
use brick_runtime::{brick, layer_scope};
use std::io::{self, Write};
use std::time::Duration;

brick_runtime::bricks!();

/// Scales a row by a factor.
#[brick(id = Scale, budget_us = 50, flops = x.len())]
fn scale(x: &mut [f32], by: f32) {
    x.iter_mut().for_each(|v| *v *= by);
}

/// Writes a line per span.
struct Logfmt {
    asked: u32,
}

impl Sink for Logfmt {
    fn export(&mut self, spans: &[SpanRecord], _: Duration) -> Result<(), SinkError> {
        self.asked += 1;
        if self.asked == 1 {
            // As a full disk or a network would: the same batch comes again.
            return Err(SinkError::retry("not now"));
        }
        let mut out = io::stdout().lock();
        for span in spans {
            let flops = span.attributes.get(keys::BRICK_FLOPS);
            let flops = flops.map_or(String::new(), |flops| format!(" flops={flops}"));
            let line = format!(
                "span={:?} clock={}{flops}",
                span.name,
                span.logical_clock.unwrap_or(0)
            );
            writeln!(out, "{line}").map_err(|error| SinkError::Permanent(error.to_string()))?;
        }
        Ok(())
    }
}

fn work() {
    let _request = span_scope("request");
    let mut row = vec![1.0; 1024];
    for layer in 0..2 {
        let _layer = layer_scope(layer);
        scale(&mut row, 0.5);
    }
}

fn main() -> io::Result<()> {
    let recording = match Recording::start(timeline::Limits::default()) {
        Ok(recording) => recording,
        Err(error) => {
            println!("nothing recorded: {error}");
            return Ok(());
        }
    };
    work();
    let timeline = recording.stop();

    let root = SpanRecord::root("custom-sink", 0, 0, Resource::detect("custom-sink"));
    let spans = RecordedSpans::new(timeline, root, &LamportClock::new());
    let exporter = Exporter::start(Logfmt { asked: 0 }, Limits::default())?;
    let patience = Duration::from_secs(5);
    exporter.offer_all(spans.iter(), patience);
    let report = exporter.finish(patience);
    println!(
        "{} spans sent, {} dropped, failed attempts: {}",
        report.sent,
        report.dropped(),
        report.failures
    );
    Ok(())
}
