//! What OpenTelemetry's environment variables say.
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>

use super::endpoint::{Endpoint, EndpointError, Protocol};
use super::headers::{Headers, HeadersError};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

/// A collector, and how it is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// What it is told beside the spans.
    pub headers: Headers,
    /// How long it may take for a batch: for [`Limits`](crate::sink::Limits).
    pub timeout: Duration,
}

/// Why there are no settings: which variable, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// Where to, or by which protocol.
    Endpoint {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        why: EndpointError,
    },
    /// What to tell it.
    Headers {
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        why: HeadersError,
    },
    /// Not a number of milliseconds, from 1.
    Timeout {
        /// The variable.
        variable: &'static str,
        /// What it is.
        value: String,
    },
    /// A compression that is not built in.
    Compression {
        /// The variable.
        variable: &'static str,
        /// What it asks for.
        value: String,
    },
}

impl Display for SettingsError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            // It says so itself.
            SettingsError::Endpoint {
                why: why @ EndpointError::Protocol { .. },
                ..
            } => why.fmt(f),
            SettingsError::Endpoint { variable, why } => write!(f, "{variable}: {why}"),
            SettingsError::Headers { variable, why } => write!(f, "{variable}: {why}"),
            SettingsError::Timeout { variable, value } => {
                write!(
                    f,
                    "{variable} is {value:?}: expected milliseconds, at least 1"
                )
            }
            SettingsError::Compression { variable, value } => write!(
                f,
                "{variable} is {value:?}: compression is not built in; expected none"
            ),
        }
    }
}

impl std::error::Error for SettingsError {}

/// What a variable of the environment is, if it is set.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The first of `variables` that is set: that for traces comes before that for all signals. An
/// empty one is none.
fn first(lookup: Lookup<'_>, variables: [&'static str; 2]) -> Option<(&'static str, String)> {
    let set = |variable| {
        Some((
            variable,
            lookup(variable).filter(|value| !value.is_empty())?,
        ))
    };
    variables.into_iter().find_map(set)
}

impl Settings {
    /// The collector at `endpoint`, which is told nothing else and may take 10 s.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Settings {
        Settings {
            endpoint,
            headers: Headers::new(),
            timeout: Duration::from_secs(10),
        }
    }

    /// What the environment says. `OTEL_EXPORTER_OTLP_TRACES_X` comes before `OTEL_EXPORTER_OTLP_X`:
    ///
    /// - `ENDPOINT`, unless `endpoint` is given. The one for all signals is a base, to which HTTP adds
    ///   `/v1/traces`; that for traces is taken as it is. `None` where neither is set, or
    ///   `OTEL_SDK_DISABLED` is `true`, or `OTEL_TRACES_EXPORTER` is `none`.
    /// - `PROTOCOL`: see [`Endpoint::from_url`].
    /// - `HEADERS`: see [`Headers::parse`].
    /// - `TIMEOUT`: in milliseconds.
    /// - `COMPRESSION`: `none`.
    ///
    /// # Errors
    /// What cannot be read, or asks for what is not built in.
    pub fn from_env(endpoint: Option<Endpoint>) -> Result<Option<Settings>, SettingsError> {
        Settings::from_variables(endpoint, &|variable| std::env::var(variable).ok())
    }

    fn from_variables(
        endpoint: Option<Endpoint>,
        lookup: Lookup<'_>,
    ) -> Result<Option<Settings>, SettingsError> {
        let endpoint = match endpoint {
            Some(endpoint) => Some(endpoint),
            None if switched_off(lookup) => None,
            None => endpoint_of(lookup)?,
        };
        let Some(endpoint) = endpoint else {
            return Ok(None);
        };
        let mut settings = Settings::new(endpoint);
        let headers = [
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_HEADERS",
        ];
        if let Some((variable, list)) = first(lookup, headers) {
            let headers = Headers::parse(&list);
            settings.headers = headers.map_err(|why| SettingsError::Headers { variable, why })?;
        }
        let timeout = [
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ];
        if let Some((variable, value)) = first(lookup, timeout) {
            match value.trim().parse() {
                Ok(ms) if ms > 0 => settings.timeout = Duration::from_millis(ms),
                _ => return Err(SettingsError::Timeout { variable, value }),
            }
        }
        let compression = [
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
            "OTEL_EXPORTER_OTLP_COMPRESSION",
        ];
        match first(lookup, compression) {
            Some((variable, value)) if value != "none" => {
                Err(SettingsError::Compression { variable, value })
            }
            _ => Ok(Some(settings)),
        }
    }
}

/// Whether the environment wants no traces. Nothing but `true` means that, the specification says.
fn switched_off(lookup: Lookup<'_>) -> bool {
    let is =
        |variable, value: &str| lookup(variable).is_some_and(|v| v.eq_ignore_ascii_case(value));
    is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none")
}

fn endpoint_of(lookup: Lookup<'_>) -> Result<Option<Endpoint>, SettingsError> {
    let variables = [
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
        "OTEL_EXPORTER_OTLP_ENDPOINT",
    ];
    let Some((variable, url)) = first(lookup, variables) else {
        return Ok(None);
    };
    let whole = variable == variables[0];
    let endpoint = protocol(lookup).and_then(|protocol| match whole {
        true => Endpoint::whole(&url, protocol),
        false => Endpoint::new(&url, protocol),
    });
    let endpoint = endpoint.map_err(|why| SettingsError::Endpoint { variable, why })?;
    Ok(Some(endpoint))
}

/// What is to be spoken, if the environment says so.
pub(super) fn protocol(lookup: Lookup<'_>) -> Result<Option<Protocol>, EndpointError> {
    let variables = [
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_PROTOCOL",
    ];
    match first(lookup, variables) {
        None => Ok(None),
        Some((_, name)) if name == "grpc" => Ok(Some(Protocol::Grpc)),
        Some((_, name)) if name == "http/protobuf" => Ok(Some(Protocol::Http)),
        Some((_, name)) => Err(EndpointError::Protocol { name }),
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Settings, SettingsError};
    use std::time::Duration;

    /// `A=x B=y`, the prefix `OTEL_EXPORTER_OTLP_` left out.
    fn read(variables: &str, endpoint: Option<&str>) -> Result<Option<Settings>, SettingsError> {
        let set = |wanted: &str| {
            variables.split_whitespace().find_map(|variable| {
                let (name, value) = variable.split_once('=')?;
                let whole = name.starts_with("OTEL_").then(|| name.to_owned());
                let name = whole.unwrap_or_else(|| format!("OTEL_EXPORTER_OTLP_{name}"));
                (name == wanted).then(|| value.to_owned())
            })
        };
        let endpoint = endpoint.map(|url| Endpoint::new(url, None).unwrap());
        Settings::from_variables(endpoint, &set)
    }

    fn url(variables: &str, endpoint: Option<&str>) -> Option<String> {
        let settings = read(variables, endpoint).unwrap();
        settings.map(|settings| settings.endpoint.to_string())
    }

    /// The examples of the specification, and its words on what comes first.
    #[test]
    fn which_collector() {
        for (variables, expected) in [
            ("", None),
            ("ENDPOINT=", None),
            ("ENDPOINT=http://c", Some("http://c:4317 (grpc)")),
            (
                "ENDPOINT=http://c:4318/my PROTOCOL=http/protobuf",
                Some("http://c:4318/my/v1/traces (http/protobuf)"),
            ),
            // As it is: a root path is one.
            (
                "TRACES_ENDPOINT=http://c:4318 PROTOCOL=http/protobuf",
                Some("http://c:4318/ (http/protobuf)"),
            ),
            (
                "ENDPOINT=http://a TRACES_ENDPOINT=http://c:4318/own/path/",
                Some("http://c:4318/own/path/ (http/protobuf)"),
            ),
            (
                "ENDPOINT=http://c PROTOCOL=grpc TRACES_PROTOCOL=http/protobuf",
                Some("http://c:4318/v1/traces (http/protobuf)"),
            ),
            ("ENDPOINT=http://c OTEL_SDK_DISABLED=TRUE", None),
            (
                "ENDPOINT=http://c OTEL_SDK_DISABLED=1",
                Some("http://c:4317 (grpc)"),
            ),
            ("ENDPOINT=http://c OTEL_TRACES_EXPORTER=none", None),
        ] {
            assert_eq!(url(variables, None).as_deref(), expected, "{variables}");
        }
        // Who says so himself is not asked again.
        let flag = Some("http://flag:1");
        for variables in ["ENDPOINT=http://c", "ENDPOINT=x", "OTEL_SDK_DISABLED=true"] {
            assert_eq!(url(variables, flag).unwrap(), "http://flag:1 (grpc)");
        }
    }

    #[test]
    fn how_it_is_spoken_to() {
        let flag = Some("http://flag:1");
        let plain = read("", flag).unwrap().unwrap();
        assert_eq!(plain.timeout, Duration::from_secs(10));
        let variables = "TIMEOUT=1 TRACES_TIMEOUT=250 HEADERS=a=1 TRACES_HEADERS=b=2 \
                         COMPRESSION=gzip TRACES_COMPRESSION=none";
        let settings = read(variables, flag).unwrap().unwrap();
        assert_eq!(settings.timeout, Duration::from_millis(250));
        assert_eq!(format!("{:?}", settings.headers), "[\"b\"]");
    }

    #[test]
    fn what_cannot_be_honoured_is_told_with_its_variable() {
        for (variables, told) in [
            (
                "ENDPOINT=https://c",
                "OTEL_EXPORTER_OTLP_ENDPOINT: \"https://c\": TLS is not built in",
            ),
            (
                "TRACES_ENDPOINT=c:4317",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: \"c:4317\" is no endpoint",
            ),
            (
                "ENDPOINT=http://c PROTOCOL=http/json",
                "OTEL_EXPORTER_OTLP_PROTOCOL is \"http/json\"",
            ),
            (
                "ENDPOINT=http://c TIMEOUT=0",
                "OTEL_EXPORTER_OTLP_TIMEOUT is \"0\": expected milliseconds",
            ),
            (
                "ENDPOINT=http://c TIMEOUT=10s",
                "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\"",
            ),
            (
                "ENDPOINT=http://c HEADERS=secret",
                "OTEL_EXPORTER_OTLP_HEADERS: not of the form",
            ),
            (
                "ENDPOINT=http://c COMPRESSION=gzip",
                "OTEL_EXPORTER_OTLP_COMPRESSION is \"gzip\": compression is not built in",
            ),
        ] {
            let error = read(variables, None).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
            assert!(!error.contains('\n') && !error.contains("secret"));
        }
    }
}
