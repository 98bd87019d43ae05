//! A run as spans, and the collector that they are sent to.

use crate::jidoka::Diagnosis;
use anyhow::{Context, Error, Result};
use brick_runtime::contract::Violation;
use brick_runtime::sink::otlp::{Endpoint, Otlp};
use brick_runtime::sink::{ExportReport, Exporter, Limits};
use brick_runtime::span::{
    Attributes, LamportClock, RecordedSpans, Resource, SpanRecord, Status, TraceContext, keys,
};
use brick_runtime::timeline::Timeline;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// What sending may take after the run, all in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// `--otlp-endpoint`.
#[derive(Debug, clap::Args)]
pub(super) struct CollectorArgs {
    /// Send every call as a span to an OpenTelemetry collector when the run is over, for up to 5 s:
    /// http://HOST:4317 (gRPC) or http://HOST:4318 (HTTP). TRACEPARENT, if set, names the caller
    #[arg(long, value_name = "URL", value_parser = Endpoint::from_url)]
    otlp_endpoint: Option<Endpoint>,
}

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    endpoint: Endpoint,
    exporter: Exporter,
}

impl CollectorArgs {
    /// Whether spans are to be sent.
    pub(super) fn is_wanted(&self) -> bool {
        self.otlp_endpoint.is_some()
    }

    /// Gets ready to send, if that is asked for, and `caller`, who started this process, would have it.
    ///
    /// # Errors
    /// If the system gives no thread or socket queue.
    pub(super) fn start(&self, caller: Option<&TraceContext>) -> Result<Option<Collector>> {
        let Some(endpoint) = &self.otlp_endpoint else {
            return Ok(None);
        };
        // As OpenTelemetry's default sampler decides: the caller's own spans are not there either.
        if caller.is_some_and(|caller| !caller.flags.sampled()) {
            writeln!(
                io::stderr(),
                "spans: none sent, for the caller's trace is not sampled (TRACEPARENT)"
            )?;
            return Ok(None);
        }
        let to = || format!("cannot send to {endpoint}");
        let sink = Otlp::new(endpoint).with_context(to)?;
        let exporter = Exporter::start(sink, Limits::default()).with_context(to)?;
        let endpoint = endpoint.clone();
        Ok(Some(Collector { endpoint, exporter }))
    }
}

impl Collector {
    /// Sends the spans, and says on standard error what became of them. A collector that is away
    /// makes no run fail.
    ///
    /// # Errors
    /// If nobody can be told.
    pub(super) fn send(self, spans: &RecordedSpans) -> io::Result<()> {
        let Collector { endpoint, exporter } = self;
        let clock = Instant::now();
        exporter.offer_all(spans.iter(), PATIENCE);
        let report = exporter.finish(PATIENCE.saturating_sub(clock.elapsed()));
        let took = clock.elapsed();
        writeln!(io::stderr(), "{}", told(&endpoint, spans, &report, took))
    }
}

/// One line, or two where something went wrong.
fn told(
    endpoint: &Endpoint,
    spans: &RecordedSpans,
    report: &ExportReport,
    took: Duration,
) -> String {
    let mut told = format!(
        "spans: {} of {} sent to {endpoint}, {} dropped (measured), in {:.1} ms after the run; trace {}",
        report.sent,
        spans.len(),
        report.dropped(),
        took.as_secs_f64() * 1e3,
        spans.root().trace_id,
    );
    if let Some(error) = &report.last_error {
        told += &format!(
            "\nspans: {} attempts failed, the last: {error}",
            report.failures
        );
    }
    told
}

/// Who started this process, by `TRACEPARENT`. One that can't be read is left aside, as W3C Trace
/// Context demands, and that is said.
///
/// # Errors
/// If nobody can be told.
pub(super) fn caller() -> io::Result<Option<TraceContext>> {
    TraceContext::from_env().or_else(|error| {
        writeln!(io::stderr(), "TRACEPARENT is left aside: {error}")?;
        Ok(None)
    })
}

/// What a command generated, and with which model.
#[derive(Debug)]
pub(super) struct Generated<'a> {
    /// `apr run`, ….
    pub(super) command: &'static str,
    /// The model.
    pub(super) model: &'a str,
    /// Tokens that were read.
    pub(super) input_tokens: usize,
    /// Tokens that were generated.
    pub(super) output_tokens: usize,
    /// Why the run did not end by itself.
    pub(super) failed: Option<&'a Failed>,
}

/// Why a run did not end by itself.
#[derive(Debug)]
pub(super) struct Failed {
    /// With the diagnosis, if there is one.
    pub(super) message: String,
    /// The brick at fault, if one is known.
    brick: Option<&'static str>,
}

impl Failed {
    /// What an error of a run says.
    pub(super) fn of(error: &Error) -> Self {
        let violation = error.downcast_ref::<Violation>();
        let diagnosis = error.downcast_ref::<Diagnosis>().and_then(Diagnosis::brick);
        Self {
            message: format!("{error:#}"),
            brick: diagnosis.or(violation.map(|violation| violation.brick.name)),
        }
    }
}

impl Generated<'_> {
    /// What the run is called: the command, the model, and how it ended unless it ended well.
    pub(super) fn title(&self) -> String {
        let title = format!("{} {}", self.command, self.model);
        match self.failed.and_then(|failed| failed.message.lines().next()) {
            Some(why) => format!("{title}, stopped: {why}"),
            None => title,
        }
    }

    /// `timeline` as spans, as called by `caller`.
    pub(super) fn spans(&self, timeline: Timeline, caller: Option<&TraceContext>) -> RecordedSpans {
        let model = Attributes::new()
            .and(keys::GEN_AI_OPERATION, "text_completion")
            .and(keys::GEN_AI_MODEL, self.model.to_owned());
        let request = model
            .clone()
            .and(keys::GEN_AI_INPUT_TOKENS, self.input_tokens)
            .and(keys::GEN_AI_OUTPUT_TOKENS, self.output_tokens);
        let root = SpanRecord::root(self.command, 0, 0, Resource::detect("apr")).with(request);
        let root = match self.failed {
            Some(failed) => root
                .status(Status::Error {
                    message: failed.message.clone().into(),
                })
                .with(Attributes::new().and_if(keys::BRICK_FAILED, failed.brick)),
            None => root,
        };
        let root = match caller {
            Some(caller) => root.in_context(caller),
            None => root,
        };
        RecordedSpans::new(timeline, root, &LamportClock::new()).with("token", model)
    }
}
