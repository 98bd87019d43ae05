//! OTLP by gRPC: one unary call per batch.

use super::endpoint::Endpoint;
use super::headers::Headers;
use super::wire::{EXPORT, ExportTraceServiceRequest, ExportTraceServiceResponse};
use crate::sink::SinkError;
use prost::Message;
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tonic::client;
use tonic::metadata::MetadataMap;
use tonic::transport::Channel;
use tonic::{Code, Extensions, Request, Status};
use tonic_prost::ProstCodec;
use ureq::http::uri::PathAndQuery;

/// The connection lives in a runtime without threads: it moves only while a batch is being sent.
#[derive(Debug)]
pub(super) struct Grpc {
    runtime: Runtime,
    channel: Channel,
    headers: MetadataMap,
    url: String,
}

impl Grpc {
    pub(super) fn new(endpoint: &Endpoint, headers: &Headers) -> io::Result<Grpc> {
        let runtime = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()?;
        let url = endpoint.url().to_owned();
        let channel = {
            let _entered = runtime.enter();
            let channel = Channel::from_shared(url.clone());
            channel.map_err(io::Error::other)?.connect_lazy()
        };
        Ok(Grpc {
            runtime,
            channel,
            headers: headers.grpc(),
            url,
        })
    }

    pub(super) fn export(
        &mut self,
        request: ExportTraceServiceRequest,
        timeout: Duration,
    ) -> Result<ExportTraceServiceResponse, SinkError> {
        let mut client = client::Grpc::new(self.channel.clone());
        let call = async {
            let unavailable = |error| Status::from_error(Box::new(error));
            client.ready().await.map_err(unavailable)?;
            let path = PathAndQuery::from_static(EXPORT);
            let headers = self.headers.clone();
            let request = Request::from_parts(headers, Extensions::new(), request);
            client.unary(request, path, ProstCodec::default()).await
        };
        let answer = self
            .runtime
            .block_on(async { tokio::time::timeout(timeout, call).await });
        match answer {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(refused(&self.url, &status)),
            Err(_) => Err(SinkError::retry(format!(
                "{}: no answer within {timeout:?}",
                self.url
            ))),
        }
    }
}

/// Which answers may be different next time: OTLP/gRPC, "Failures".
fn refused(url: &str, status: &Status) -> SinkError {
    let why = format!("{url}: {}", described(status));
    let retry = |after| SinkError::Retry {
        why: why.clone(),
        after,
    };
    match status.code() {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss => retry(retry_info(status.details())),
        // It has had enough, and comes back to it only if it says when.
        Code::ResourceExhausted => match retry_info(status.details()) {
            Some(after) => retry(Some(after)),
            None => SinkError::Permanent(why),
        },
        // Not its answer, but that of a connection that broke.
        _ if status.source().is_some() => retry(None),
        _ => SinkError::Permanent(why),
    }
}

/// In one line: the cause at the bottom says most ("Connection refused"), the code least.
fn described(status: &Status) -> String {
    let mut text = match status.message() {
        "" => format!("{:?}", status.code()),
        message => format!("{:?}, {message}", status.code()),
    };
    let mut cause = status.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}

/// `google.rpc.Status`: what `grpc-status-details-bin` holds.
#[derive(Clone, PartialEq, Message)]
struct Details {
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<ProtoDuration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct ProtoDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// When to come back, if the details of a status say so.
fn retry_info(details: &[u8]) -> Option<Duration> {
    let details = Details::decode(details).ok()?.details;
    let info = details
        .iter()
        .find(|any| any.type_url.ends_with("/google.rpc.RetryInfo"))?;
    let delay = RetryInfo::decode(&info.value[..]).ok()?.retry_delay?;
    let (seconds, nanos) = (
        u64::try_from(delay.seconds).ok()?,
        u32::try_from(delay.nanos).ok()?,
    );
    Some(Duration::from_secs(seconds).saturating_add(Duration::from_nanos(nanos.into())))
}

#[cfg(test)]
mod tests {
    use super::{Duration, retry_info};

    /// The bytes by hand, from protobuf's encoding rules.
    #[test]
    fn when_to_come_back() {
        let url = b"type.googleapis.com/google.rpc.RetryInfo";
        let duration = [0x08, 2, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]; // 2 s, 500,000,000 ns
        let info: Vec<u8> = [0x0a, duration.len() as u8]
            .into_iter()
            .chain(duration)
            .collect();
        let mut any = vec![0x0a, url.len() as u8];
        any.extend(url);
        any.extend([0x12, info.len() as u8]);
        any.extend(info);
        let mut details = vec![0x08, 8, 0x1a, any.len() as u8];
        details.extend(any);
        assert_eq!(retry_info(&details), Some(Duration::from_millis(2500)));
        assert_eq!(retry_info(&details[..20]), None);
        assert_eq!(retry_info(&[]), None);
    }
}
