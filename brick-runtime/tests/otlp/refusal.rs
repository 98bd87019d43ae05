//! Collectors that are not there, do not answer, hang up, or say no. None of this is timed: the counts
//! say what became of the spans.

use crate::{MINUTE, exporter};
use brick_runtime::sink::otlp::{Endpoint, Headers, Otlp, Protocol};
use brick_runtime::sink::{Backoff, ExportReport, Exporter, Limits};
use brick_runtime::span::{Resource, SpanRecord};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const PROTOCOLS: [Protocol; 2] = [Protocol::Grpc, Protocol::Http];

/// Gives up soon, so that a test does.
const HASTY: Limits = Limits {
    high: 64,
    low: 32,
    batch: 16,
    delay: Duration::from_millis(1),
    timeout: Duration::from_millis(200),
    attempts: 2,
    backoff: Backoff {
        first: Duration::from_millis(2),
        most: Duration::from_millis(10),
    },
    failures: 3,
    pause: Duration::from_secs(3600),
};

fn spans(n: usize) -> Vec<SpanRecord> {
    let resource = Arc::new(Resource::detect("refusal"));
    (0..n)
        .map(|_| SpanRecord::root("span", 1, 2, Arc::clone(&resource)))
        .collect()
}

/// Offers a thousand spans as a kernel would, without waiting, and ends.
fn thousand(exporter: Exporter) -> ExportReport {
    let taken = spans(1000)
        .into_iter()
        .filter(|span| exporter.offer(span.clone()))
        .count() as u64;
    let report = exporter.finish(Duration::from_secs(2));
    assert_eq!(report.sent, 0);
    assert_eq!(report.refused, 1000 - taken);
    assert_eq!(
        report.dropped(),
        1000,
        "every span is accounted for: {report:?}"
    );
    report
}

#[test]
fn nobody_listens() {
    for protocol in PROTOCOLS {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let report = thousand(exporter(port, protocol, &Headers::new(), HASTY));
        let error = report.last_error.unwrap();
        assert!(
            error.to_lowercase().contains("refused"),
            "{protocol:?}: {error}"
        );
        assert!(
            error.starts_with(&format!("http://127.0.0.1:{port}")),
            "{error}"
        );
        assert_eq!(report.opened, 1, "{protocol:?}: it goes on asking");
        assert_eq!(report.failures, 3, "{protocol:?}");
    }
}

#[test]
fn nobody_answers() {
    for protocol in PROTOCOLS {
        // The kernel completes the connection; nobody ever reads it.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let report = thousand(exporter(port, protocol, &Headers::new(), HASTY));
        let error = report.last_error.unwrap();
        let told = ["no answer within", "timeout"]
            .iter()
            .any(|text| error.contains(text));
        assert!(told, "{protocol:?}: {error}");
        drop(listener);
    }
}

/// Serves connections, one after the other, until `serve` returns `false`.
fn server(
    mut serve: impl FnMut(TcpStream) -> bool + Send + 'static,
) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = thread::spawn(move || while serve(listener.accept().unwrap().0) {});
    (port, thread)
}

/// Ends a [`server`] that would wait for another connection.
fn stop(port: u16, thread: thread::JoinHandle<()>) {
    let _ = TcpStream::connect(("127.0.0.1", port)).and_then(|mut end| end.write_all(b"END!"));
    thread.join().unwrap();
}

#[test]
fn it_hangs_up() {
    for protocol in PROTOCOLS {
        // Closed with something unread: the kernel answers with a reset.
        let (port, thread) = server(|mut stream| {
            let mut first = [0; 4];
            stream.read_exact(&mut first).is_ok() && &first != b"END!"
        });
        let report = thousand(exporter(port, protocol, &Headers::new(), HASTY));
        assert_eq!(report.opened, 1, "{protocol:?}: {report:?}");
        stop(port, thread);
    }
}

/// Reads one HTTP request; its path and the length of its body.
fn request(stream: &TcpStream) -> Option<(String, usize)> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, length))
}

/// The report of 16 spans to a server that gives these answers, head and body, in turn.
fn answered(answers: &'static [(&'static str, &'static [u8])]) -> ExportReport {
    let mut answers = answers.iter();
    let (port, thread) = server(move |mut stream| {
        let Some((path, length)) = request(&stream) else {
            return false;
        };
        assert_eq!(path, "/otlp/v1/traces");
        assert!(length > 16 * 24, "the ids alone take that: {length}");
        let (head, body) = answers.next().expect("another request");
        let head = format!(
            "HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        true
    });
    let url = format!("http://127.0.0.1:{port}/otlp");
    let endpoint = Endpoint::new(&url, None).unwrap();
    let limits = Limits {
        timeout: MINUTE,
        ..HASTY
    };
    let exporter = Exporter::start(Otlp::new(&endpoint).unwrap(), limits).unwrap();
    exporter.offer_all(spans(16), MINUTE);
    let report = exporter.finish(MINUTE);
    stop(port, thread);
    report
}

/// OTLP/HTTP, "Failures": 429, 502, 503 and 504 are tried again, all else is not.
#[test]
fn what_http_answers_mean() {
    let busy = answered(&[
        ("503 Service Unavailable\r\nretry-after: 0", b""),
        ("200 OK", b""),
    ]);
    assert_eq!((busy.sent, busy.dropped(), busy.failures), (16, 0, 1));
    assert!(
        busy.last_error
            .unwrap()
            .ends_with("HTTP 503 Service Unavailable")
    );

    let lost = answered(&[("404 Not Found", b"no such page")]);
    assert_eq!((lost.sent, lost.failed, lost.failures), (0, 16, 1));

    // A redirect is not followed: a POST would become a GET.
    let moved = answered(&[("302 Found\r\nlocation: http://127.0.0.1:1/", b"")]);
    assert_eq!((moved.sent, moved.failed), (0, 16));

    // ExportTraceServiceResponse { partial_success: { rejected_spans: 3, error_message: "too long" } }
    let partial = answered(&[("200 OK", b"\x0a\x0c\x08\x03\x12\x08too long")]);
    assert_eq!((partial.sent, partial.failed), (13, 3));
    assert_eq!(
        partial.last_error.as_deref(),
        Some("3 spans rejected: too long")
    );

    // A warning: nothing is rejected.
    let warned = answered(&[("200 OK", b"\x0a\x06\x12\x04slow")]);
    assert_eq!(
        (warned.sent, warned.dropped(), warned.last_error),
        (16, 0, None)
    );

    // Whatever stands there, it was taken.
    let odd = answered(&[("200 OK", b"<html>")]);
    assert_eq!((odd.sent, odd.dropped()), (16, 0));
}
