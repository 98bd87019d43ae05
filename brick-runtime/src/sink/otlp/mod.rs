//! OTLP: spans to an OpenTelemetry collector, by gRPC or by HTTP.
//!
//! <https://opentelemetry.io/docs/specs/otlp/>. Times are those of the record, to the nanosecond, and
//! the exported id is the record's. Neither TLS nor compression is built in: a collector beside the
//! program is what this is for.

mod endpoint;
mod grpc;
mod headers;
mod http;
mod message;
mod settings;
mod wire;

pub use endpoint::{Endpoint, EndpointError, Protocol};
pub use headers::{Headers, HeadersError};
pub use settings::{Settings, SettingsError};

use self::grpc::Grpc;
use self::http::Http;
use super::{Sink, SinkError};
use crate::span::SpanRecord;
use std::io;
use std::time::Duration;

/// A [`Sink`] that is a collector.
#[derive(Debug)]
pub struct Otlp {
    transport: Transport,
}

#[derive(Debug)]
enum Transport {
    Grpc(Grpc),
    Http(Http),
}

impl Otlp {
    /// For the collector at `endpoint`. Nobody is asked yet: a collector may come up later.
    ///
    /// # Errors
    /// Where the system gives no event queue to wait on.
    pub fn new(endpoint: &Endpoint) -> io::Result<Otlp> {
        Otlp::with_headers(endpoint, &Headers::new())
    }

    /// As [`new`](Otlp::new); every request has these headers.
    ///
    /// # Errors
    /// As [`new`](Otlp::new).
    pub fn with_headers(endpoint: &Endpoint, headers: &Headers) -> io::Result<Otlp> {
        let transport = match endpoint.protocol() {
            Protocol::Grpc => Transport::Grpc(Grpc::new(endpoint, headers)?),
            Protocol::Http => Transport::Http(Http::new(endpoint, headers)),
        };
        Ok(Otlp { transport })
    }
}

impl Sink for Otlp {
    fn export(&mut self, spans: &[SpanRecord], timeout: Duration) -> Result<(), SinkError> {
        let request = message::request(spans);
        let response = match &mut self.transport {
            Transport::Grpc(grpc) => grpc.export(request, timeout),
            Transport::Http(http) => http.export(&request, timeout),
        }?;
        match response.partial_success {
            // With nothing rejected the message is a warning, and the spans have arrived.
            Some(partial) if partial.rejected_spans > 0 => Err(SinkError::Partial {
                rejected: partial.rejected_spans.unsigned_abs(),
                why: partial.error_message,
            }),
            _ => Ok(()),
        }
    }
}
