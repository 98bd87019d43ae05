//! What sending spans costs: spans per second to collectors that take them, what becomes of them where
//! nobody does, and bytes per span.
//!
//! `tests/span-costs` starts collectors and runs this with their addresses:
//!
//!     span_costs [grpc|http/protobuf=URL]...
//!
//! Each figure is the median of the rounds, with the least and the most; rounds take turns.
#![allow(clippy::cast_precision_loss)]

use brick_runtime::sink::otlp::{Endpoint, Otlp, Protocol};
use brick_runtime::sink::{ExportReport, Exporter, Limits};
use brick_runtime::span::{Attributes, Resource, SpanRecord, code_attributes, keys};
use brick_runtime::{BrickInfo, sink::parquet};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: usize = 7;
/// Spans in a round: some forty full batches.
const SPANS: usize = 20_000;
/// Longer than a round takes.
const PATIENCE: Duration = Duration::from_secs(60);

static BRICK: BrickInfo = BrickInfo::new(
    "DownProjection",
    "kernels::projection",
    "down_projection",
    "kernels/src/projection.rs",
    160,
)
.budget_ns(40_000);

/// Calls of a brick in a layer, as a model's run has them.
fn spans() -> Vec<SpanRecord> {
    let resource = Arc::new(Resource::detect("span-costs"));
    let root = SpanRecord::root("request", 0, 1, resource);
    let start = 1_795_953_600_000_000_000;
    let span = |n: u64| {
        let begin = start + 40_000 * n;
        let about = Attributes::new()
            .and(keys::BRICK_EVENT, "brick")
            .and(keys::BRICK_LAYER, n % 30)
            .and(keys::BRICK_POSITION, n / 600)
            .and(keys::BRICK_FLOPS, 1_769_472_u64)
            .and(keys::BRICK_BYTES, 500_000_u64);
        let mut span = root.child(BRICK.name, begin, begin + 35_000);
        span.logical_clock = Some(n);
        span.tid = Some(4711);
        span.with(code_attributes(&BRICK)).with(about)
    };
    (0..SPANS as u64).map(span).collect()
}

/// The middle one, and the first and the last.
fn spread(mut figures: Vec<f64>) -> String {
    figures.sort_by(f64::total_cmp);
    let (least, most) = (figures[0], figures[figures.len() - 1]);
    let middle = figures[figures.len() / 2];
    format!("{middle:>10.0} ({least:.0} to {most:.0})")
}

fn exporter(endpoint: &Endpoint, limits: Limits) -> Result<Exporter, Box<dyn Error>> {
    Ok(Exporter::start(Otlp::new(endpoint)?, limits)?)
}

/// Spans per second from the first offer to the last answer, with all that a span costs: encoding,
/// sending, and the collector's own time.
fn sustained(endpoint: &Endpoint, spans: &[SpanRecord]) -> Result<f64, Box<dyn Error>> {
    let exporter = exporter(endpoint, Limits::default())?;
    let clock = Instant::now();
    exporter.offer_all(spans.iter().cloned(), PATIENCE);
    let report = exporter.finish(PATIENCE);
    let took = clock.elapsed();
    if report.sent != spans.len() as u64 {
        return Err(format!("{endpoint}: {report:?}").into());
    }
    Ok(report.sent as f64 / took.as_secs_f64())
}

/// How a collector behaves that is none.
#[derive(Clone, Copy)]
enum Fault {
    /// Nobody listens.
    Gone,
    /// It takes a connection and never answers.
    Silent,
    /// It hangs up when something comes.
    Resets,
    /// It answers after 100 ms.
    Slow,
}

/// Listens, and behaves so until the program ends; the port.
fn faulty(fault: Fault) -> Result<u16, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    if matches!(fault, Fault::Gone) {
        return Ok(port);
    }
    thread::spawn(move || {
        let mut silent = Vec::new();
        for stream in listener.incoming().flatten() {
            match fault {
                Fault::Gone => {}
                Fault::Silent => silent.push(stream),
                Fault::Resets => drop((&stream).read(&mut [0])),
                Fault::Slow => while answer(&stream, Duration::from_millis(100)).is_some() {},
            }
        }
    });
    Ok(port)
}

/// Reads an HTTP request and says yes, `after` that time: the length of its body.
fn answer(stream: &TcpStream, after: Duration) -> Option<usize> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    thread::sleep(after);
    let yes = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    (&mut &*stream).write_all(yes).ok()?;
    Some(length)
}

/// Offers all spans as a kernel would, waiting for nothing: nanoseconds an offer, milliseconds of a flush
/// of half a second, and what became of them.
fn into_the_void(
    fault: Fault,
    spans: &[SpanRecord],
) -> Result<(f64, f64, ExportReport), Box<dyn Error>> {
    let url = format!("http://127.0.0.1:{}", faulty(fault)?);
    let limits = Limits {
        timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let exporter = exporter(&Endpoint::new(&url, Some(Protocol::Http))?, limits)?;
    let spans = spans.to_vec();
    let (n, clock) = (spans.len() as f64, Instant::now());
    for span in spans {
        exporter.offer(span);
    }
    let offered = clock.elapsed().as_nanos() as f64 / n;
    let clock = Instant::now();
    let report = exporter.finish(Duration::from_millis(500));
    Ok((offered, clock.elapsed().as_secs_f64() * 1e3, report))
}

/// Bytes of an HTTP request's body for each of a full batch of spans.
fn bytes_by_otlp(spans: &[SpanRecord]) -> Result<f64, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let reader = thread::spawn(move || {
        let (stream, _) = listener.accept().ok()?;
        answer(&stream, Duration::ZERO)
    });
    let limits = Limits::default();
    let batch = limits.batch.min(spans.len());
    let exporter = exporter(&Endpoint::new(&url, Some(Protocol::Http))?, limits)?;
    exporter.offer_all(spans[..batch].iter().cloned(), PATIENCE);
    exporter.finish(PATIENCE);
    let body = reader.join().ok().flatten().ok_or("no request came")?;
    Ok(body as f64 / batch as f64)
}

fn main() -> Result<(), Box<dyn Error>> {
    let spans = spans();
    let mut endpoints = Vec::new();
    for argument in std::env::args().skip(1) {
        let (name, url) = argument.split_once('=').ok_or("expected PROTOCOL=URL")?;
        let protocols = [Protocol::Grpc, Protocol::Http];
        let protocol = protocols.into_iter().find(|p| p.name() == name);
        endpoints.push(Endpoint::new(
            url,
            Some(protocol.ok_or("no such protocol")?),
        )?);
    }

    println!(
        "spans/s sustained, {SPANS} spans in batches of {}, {ROUNDS} rounds (measured)",
        Limits::default().batch
    );
    let mut figures = vec![Vec::new(); endpoints.len()];
    for _ in 0..ROUNDS {
        for (endpoint, figures) in endpoints.iter().zip(&mut figures) {
            figures.push(sustained(endpoint, &spans)?);
        }
    }
    for (endpoint, figures) in endpoints.iter().zip(figures) {
        println!("  {:<14} {}", endpoint.protocol().name(), spread(figures));
    }

    println!(
        "\n{SPANS} spans offered without waiting, a buffer of {}, then a flush of 500 ms (measured)",
        Limits::default().high
    );
    println!(
        "  {:<10} {:>9} {:>9} {:>7} {:>8} {:>7} {:>7} {:>9} {:>7}",
        "collector",
        "ns/offer",
        "flush ms",
        "sent",
        "refused",
        "failed",
        "left",
        "failures",
        "opened"
    );
    let faults = [
        ("gone", Fault::Gone),
        ("silent", Fault::Silent),
        ("resets", Fault::Resets),
        ("slow", Fault::Slow),
    ];
    for (name, fault) in faults {
        let (offer, flush, r) = into_the_void(fault, &spans)?;
        println!(
            "  {name:<10} {offer:>9.0} {flush:>9.1} {:>7} {:>8} {:>7} {:>7} {:>9} {:>7}",
            r.sent, r.refused, r.failed, r.left, r.failures, r.opened
        );
    }

    let mut table = Vec::new();
    parquet::write_spans(&mut table, spans.iter().cloned())?;
    println!("\nbytes/span (measured)");
    println!("  otlp, protobuf {:>10.1}", bytes_by_otlp(&spans)?);
    println!(
        "  parquet        {:>10.1}",
        table.len() as f64 / SPANS as f64
    );
    Ok(())
}
