//! A run as spans, and the collector that they are sent to while it goes on.

use crate::jidoka::Diagnosis;
use anyhow::{Context, Error, Result};
use brick_runtime::contract::Violation;
use brick_runtime::sink::otlp::{Endpoint, Otlp, Settings};
use brick_runtime::sink::{ExportReport, Exporter, Limits, LiveExport};
use brick_runtime::span::{
    Attributes, LamportClock, RecordedSpans, Resource, SpanRecord, SpanStream, Status,
    StreamCounts, TraceContext, keys,
};
use brick_runtime::timeline::{Recording, Timeline};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// What sending may take after the run, all in all.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked what has ended.
const EVERY: Duration = Duration::from_millis(50);
/// A batch that is not full waits for so long: together they are what a run that is killed loses.
const DELAY: Duration = Duration::from_millis(200);

/// `--otlp-endpoint`.
#[derive(Debug, clap::Args)]
pub(super) struct CollectorArgs {
    /// Send every call as a span to an OpenTelemetry collector, while the run goes on and for up to 5 s
    /// after it: http://HOST:4317 (gRPC) or http://HOST:4318 (HTTP). TRACEPARENT, if set, names the caller;
    /// OTEL_EXPORTER_OTLP_ENDPOINT, _PROTOCOL, _HEADERS, _TIMEOUT, OTEL_SERVICE_NAME and
    /// OTEL_RESOURCE_ATTRIBUTES mean what OpenTelemetry says
    #[arg(long, value_name = "URL", value_parser = Endpoint::from_url)]
    otlp_endpoint: Option<Endpoint>,
}

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    endpoint: Endpoint,
    exporter: Exporter,
}

/// Spans on their way to a collector.
#[derive(Debug)]
pub(super) struct Live {
    endpoint: Endpoint,
    export: LiveExport,
}

/// What is still to be sent when the run is over.
#[derive(Debug)]
pub(super) struct Rest {
    endpoint: Endpoint,
    exporter: Exporter,
    stream: SpanStream,
}

impl CollectorArgs {
    /// Whether spans are to be sent, as far as that can be read.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(Settings::from_env(self.otlp_endpoint.clone()), Ok(Some(_)))
    }

    /// Gets ready to send, if that is asked for, and `caller`, who started this process, would have it.
    ///
    /// # Errors
    /// If the system gives no thread or socket queue.
    pub(super) fn start(&self, caller: Option<&TraceContext>) -> Result<Option<Collector>> {
        let Some(settings) = Settings::from_env(self.otlp_endpoint.clone())? else {
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
        let endpoint = settings.endpoint;
        let to = || format!("cannot send to {endpoint}");
        let sink = Otlp::with_headers(&endpoint, &settings.headers).with_context(to)?;
        let limits = Limits {
            delay: DELAY,
            timeout: settings.timeout,
            ..Limits::default()
        };
        let exporter = Exporter::start(sink, limits).with_context(to)?;
        Ok(Some(Collector { endpoint, exporter }))
    }
}

impl Collector {
    /// Sends what `recording` records from now on; `keep` it for others too.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn follow(
        self,
        recording: Recording,
        subject: &Subject<'_>,
        caller: Option<&TraceContext>,
        keep: bool,
    ) -> Result<Live> {
        let Collector { endpoint, exporter } = self;
        let stream = SpanStream::new(recording, subject.root(caller), LamportClock::new())
            .with("token", subject.attributes());
        let stream = if keep { stream.keeping() } else { stream };
        let export = LiveExport::start(stream, exporter, EVERY)
            .with_context(|| format!("cannot send to {endpoint}"))?;
        Ok(Live { endpoint, export })
    }
}

impl Live {
    /// The run is over: what is left.
    pub(super) fn stop(self) -> Rest {
        let (mut stream, exporter) = self.export.stop();
        stream.stop();
        Rest {
            endpoint: self.endpoint,
            exporter,
            stream,
        }
    }
}

impl Rest {
    /// What there is to say of the run: the whole recording, if it was kept.
    pub(super) fn complete(&mut self, generated: &Generated<'_>) -> Option<RecordedSpans> {
        self.stream.complete(|root| generated.complete(root))
    }

    /// Adds spans of what the recording left out.
    pub(super) fn add(&mut self, spans: Vec<SpanRecord>) {
        self.stream.add(spans);
    }

    /// What was recorded.
    pub(super) fn counts(&self) -> StreamCounts {
        self.stream.counts()
    }

    /// Sends it, and says on standard error what became of all spans. A collector that is away makes no
    /// run fail.
    ///
    /// # Errors
    /// If nobody can be told.
    pub(super) fn send(mut self) -> io::Result<()> {
        let clock = Instant::now();
        let root = self.stream.root().clone();
        let spans = self.stream.spans();
        self.exporter.offer_all(&mut self.stream, PATIENCE);
        let report = self
            .exporter
            .finish(PATIENCE.saturating_sub(clock.elapsed()));
        let (took, endpoint) = (clock.elapsed(), &self.endpoint);
        let told = told(endpoint, (&root, spans), &report, took);
        writeln!(io::stderr(), "{told}")
    }
}

/// One line, or two where something went wrong.
fn told(
    endpoint: &Endpoint,
    (root, spans): (&SpanRecord, usize),
    report: &ExportReport,
    took: Duration,
) -> String {
    let mut told = format!(
        "spans: {} of {spans} sent to {endpoint}, {} dropped (measured), until {:.1} ms after the run; trace {}",
        report.sent,
        report.dropped(),
        took.as_secs_f64() * 1e3,
        root.trace_id,
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

/// Which command runs, and with which model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    /// `apr run`, ….
    pub(super) command: &'static str,
    /// The model.
    pub(super) model: &'a str,
}

impl Subject<'_> {
    /// What all else is part of, as called by `caller`.
    fn root(&self, caller: Option<&TraceContext>) -> SpanRecord {
        let root = SpanRecord::root(self.command, 0, 0, Resource::detect("apr"));
        let root = root.with(self.attributes());
        match caller {
            Some(caller) => root.in_context(caller),
            None => root,
        }
    }

    /// What is said of the request and of each token.
    fn attributes(&self) -> Attributes {
        Attributes::new()
            .and(keys::GEN_AI_OPERATION, "text_completion")
            .and(keys::GEN_AI_MODEL, self.model.to_owned())
    }
}

/// What a command generated.
#[derive(Debug)]
pub(super) struct Generated<'a> {
    /// Who did.
    pub(super) subject: Subject<'a>,
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
        let title = format!("{} {}", self.subject.command, self.subject.model);
        match self.failed.and_then(|failed| failed.message.lines().next()) {
            Some(why) => format!("{title}, stopped: {why}"),
            None => title,
        }
    }

    /// `timeline` as spans, as called by `caller`.
    pub(super) fn spans(&self, timeline: Timeline, caller: Option<&TraceContext>) -> RecordedSpans {
        let root = self.complete(self.subject.root(caller));
        RecordedSpans::new(timeline, root, &LamportClock::new())
            .with("token", self.subject.attributes())
    }

    /// The root with what is known of it when the run is over.
    fn complete(&self, root: SpanRecord) -> SpanRecord {
        let root = root.with(
            Attributes::new()
                .and(keys::GEN_AI_INPUT_TOKENS, self.input_tokens)
                .and(keys::GEN_AI_OUTPUT_TOKENS, self.output_tokens),
        );
        match self.failed {
            Some(failed) => root
                .status(Status::Error {
                    message: failed.message.clone().into(),
                })
                .with(Attributes::new().and_if(keys::BRICK_FAILED, failed.brick)),
            None => root,
        }
    }
}
