//! OTLP by HTTP: one POST of protobuf per batch.

use super::endpoint::Endpoint;
use super::headers::Headers;
use super::wire::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use crate::sink::SinkError;
use prost::Message;
use std::time::Duration;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};

/// An answer is a few bytes. Whoever sends more is no collector.
const LONGEST_ANSWER: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct Http {
    agent: Agent,
    headers: HeaderMap,
    url: String,
}

impl Http {
    pub(super) fn new(endpoint: &Endpoint, headers: &Headers) -> Http {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A POST is not to be turned into a GET of something else.
            .max_redirects(0)
            .proxy(None)
            .build();
        Http {
            agent: config.new_agent(),
            headers: headers.http(),
            url: endpoint.url().into(),
        }
    }

    pub(super) fn export(
        &mut self,
        request: &ExportTraceServiceRequest,
        timeout: Duration,
    ) -> Result<ExportTraceServiceResponse, SinkError> {
        let told = |error: ureq::Error| SinkError::retry(format!("{}: {error}", self.url));
        let mut post = self.agent.post(&self.url);
        for (name, value) in &self.headers {
            post = post.header(name, value);
        }
        let request = post
            .header("content-type", "application/x-protobuf")
            .config()
            .timeout_global(Some(timeout))
            .build()
            .send(&request.encode_to_vec()[..]);
        let mut response = request.map_err(told)?;
        let body = response
            .body_mut()
            .with_config()
            .limit(LONGEST_ANSWER)
            .read_to_vec();
        if response.status().is_success() {
            // Taken, whatever the rest says: an answer that cannot be read is no reason to send again.
            return Ok(body
                .ok()
                .and_then(|body| ExportTraceServiceResponse::decode(&body[..]).ok())
                .unwrap_or_default());
        }
        Err(self.refused(&response))
    }

    /// Which answers may be different next time: OTLP/HTTP, "Failures".
    fn refused(&self, response: &Response<Body>) -> SinkError {
        let status = response.status();
        let why = format!("{}: HTTP {status}", self.url);
        match status.as_u16() {
            429 | 502..=504 => SinkError::Retry {
                why,
                after: retry_after(response),
            },
            _ => SinkError::Permanent(why),
        }
    }
}

/// Seconds; a date, the other form that the header has, is left to our own pauses.
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let value = response.headers().get("retry-after")?.to_str().ok()?;
    value.trim().parse().ok().map(Duration::from_secs)
}
