//! Where a collector listens, and what it speaks.

use super::settings::protocol;
use std::env;
use std::fmt::{self, Display, Formatter};
use ureq::http::Uri;

/// The path of traces, OTLP/HTTP.
const TRACES: &str = "/v1/traces";

/// How spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// gRPC, by default on port 4317.
    Grpc,
    /// Protobuf by HTTP, by default on port 4318.
    Http,
}

impl Protocol {
    /// As `OTEL_EXPORTER_OTLP_PROTOCOL` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Grpc => "grpc",
            Protocol::Http => "http/protobuf",
        }
    }

    fn port(self) -> u16 {
        match self {
            Protocol::Grpc => 4317,
            Protocol::Http => 4318,
        }
    }
}

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    protocol: Protocol,
    /// With its scheme and port, and for HTTP with its path.
    url: String,
}

/// Why that is no endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a URL with a scheme and a host.
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not `http`.
    Scheme {
        /// What was given.
        url: String,
        /// The scheme.
        scheme: String,
    },
    /// gRPC has no path but its own.
    Path {
        /// What was given.
        url: String,
    },
    /// A protocol that is not spoken here.
    Protocol {
        /// What the environment asks for.
        name: String,
    },
}

impl Display for EndpointError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            EndpointError::Url { url, why } => {
                write!(
                    f,
                    "{url:?} is no endpoint ({why}): expected http://HOST:PORT"
                )
            }
            EndpointError::Scheme { url, scheme } if scheme == "https" => write!(
                f,
                "{url:?}: TLS is not built in; send to a collector on http:// that passes it on"
            ),
            EndpointError::Scheme { url, scheme } => {
                write!(
                    f,
                    "{url:?} is no endpoint (scheme {scheme:?}): expected http://HOST:PORT"
                )
            }
            EndpointError::Path { url } => write!(
                f,
                "{url:?}: gRPC takes no path; for HTTP set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
            ),
            EndpointError::Protocol { name } => write!(
                f,
                "OTEL_EXPORTER_OTLP_PROTOCOL is {name:?}: expected grpc or http/protobuf"
            ),
        }
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// The collector at `url`. What it speaks is said by `OTEL_EXPORTER_OTLP_TRACES_PROTOCOL` or
    /// `OTEL_EXPORTER_OTLP_PROTOCOL` (`grpc`, `http/protobuf`); where neither is set, by the URL: port 4318
    /// or a path is HTTP, all else gRPC.
    ///
    /// # Errors
    /// A text that is no URL, another scheme than `http`, an unknown protocol in the environment.
    pub fn from_url(url: &str) -> Result<Endpoint, EndpointError> {
        Endpoint::new(url, protocol(&|variable| env::var(variable).ok())?)
    }

    /// The collector at `url`, which speaks `protocol`; `None` goes by the URL, as
    /// [`from_url`](Endpoint::from_url) does.
    ///
    /// An HTTP endpoint is a base: `/v1/traces` is added unless it ends so.
    ///
    /// # Errors
    /// A text that is no URL, another scheme than `http`, a path with gRPC.
    pub fn new(url: &str, protocol: Option<Protocol>) -> Result<Endpoint, EndpointError> {
        Endpoint::parse(url, protocol, |path| {
            let path = path.trim_end_matches('/');
            match path.ends_with(TRACES) {
                true => path.into(),
                false => format!("{path}{TRACES}"),
            }
        })
    }

    /// As [`new`](Endpoint::new), but for HTTP with the path that is given, and no other.
    pub(super) fn whole(url: &str, protocol: Option<Protocol>) -> Result<Endpoint, EndpointError> {
        Endpoint::parse(url, protocol, str::to_owned)
    }

    /// `traces` makes of the path that of traces, for HTTP.
    fn parse(
        url: &str,
        protocol: Option<Protocol>,
        traces: impl FnOnce(&str) -> String,
    ) -> Result<Endpoint, EndpointError> {
        let wrong = |why: String| EndpointError::Url {
            url: url.into(),
            why,
        };
        let uri: Uri = url
            .parse()
            .map_err(|why: ureq::http::uri::InvalidUri| wrong(why.to_string()))?;
        let scheme = uri.scheme_str().ok_or_else(|| wrong("no scheme".into()))?;
        if scheme != "http" {
            return Err(EndpointError::Scheme {
                url: url.into(),
                scheme: scheme.into(),
            });
        }
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(|| wrong("no host".into()))?;
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.contains('@') {
            return Err(wrong("user names are not supported".into()));
        }
        if uri.port_u16().is_none() && authority.len() != host.len() {
            return Err(wrong("its port is no number up to 65535".into()));
        }
        if uri.query().is_some() {
            return Err(wrong("a query has no meaning here".into()));
        }
        let bare = uri.path().trim_end_matches('/').is_empty();
        let protocol = protocol.unwrap_or(match (uri.port_u16(), bare) {
            (Some(4318), _) => Protocol::Http,
            (_, true) => Protocol::Grpc,
            _ => Protocol::Http,
        });
        let port = uri.port_u16().unwrap_or(protocol.port());
        let path = match protocol {
            Protocol::Grpc if bare => String::new(),
            Protocol::Grpc => return Err(EndpointError::Path { url: url.into() }),
            Protocol::Http => traces(uri.path()),
        };
        Ok(Endpoint {
            protocol,
            url: format!("http://{host}:{port}{path}"),
        })
    }

    /// What it speaks.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// With the port, and for HTTP with the path of traces.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// `http://localhost:4317 (grpc)`.
impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.url, self.protocol.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Protocol};

    #[test]
    fn what_an_endpoint_means() {
        for (url, meant) in [
            ("http://localhost", "http://localhost:4317 (grpc)"),
            ("http://localhost:4317/", "http://localhost:4317 (grpc)"),
            ("http://[::1]:9", "http://[::1]:9 (grpc)"),
            ("http://[::1]", "http://[::1]:4317 (grpc)"),
            ("http://h:4318", "http://h:4318/v1/traces (http/protobuf)"),
            (
                "HTTP://h:4318/v1/traces",
                "http://h:4318/v1/traces (http/protobuf)",
            ),
            (
                "http://h/v1/traces",
                "http://h:4318/v1/traces (http/protobuf)",
            ),
            (
                "http://h:80/otlp/",
                "http://h:80/otlp/v1/traces (http/protobuf)",
            ),
        ] {
            assert_eq!(
                Endpoint::new(url, None).unwrap().to_string(),
                meant,
                "{url}"
            );
        }
        let http = Endpoint::new("http://h:4317", Some(Protocol::Http)).unwrap();
        assert_eq!(http.url(), "http://h:4317/v1/traces");
    }

    #[test]
    fn what_is_no_endpoint_and_why() {
        for (url, why) in [
            ("", "empty string"),
            ("localhost:4317", "scheme"),
            ("//localhost", "no scheme"),
            ("grpc://h", "scheme \"grpc\""),
            ("https://h:4317", "TLS is not built in"),
            ("http://", "expected http://HOST:PORT"),
            ("http://h:port", "expected http://HOST:PORT"),
            ("http://h:70000", "port"),
            ("http://h:", "port"),
            ("http://h h", "expected http://HOST:PORT"),
            ("http://u:p@h", "user names"),
            ("http://h/?a=b", "query"),
        ] {
            let error = Endpoint::new(url, None).unwrap_err().to_string();
            assert!(
                error.contains(why) && !error.contains('\n'),
                "{url}: {error}"
            );
        }
        let error = Endpoint::new("http://h/x", Some(Protocol::Grpc)).unwrap_err();
        assert!(error.to_string().contains("gRPC takes no path"), "{error}");
    }
}
