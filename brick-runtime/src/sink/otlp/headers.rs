//! Headers that are sent along: who is asking, mostly.

use crate::span::pairs;
use std::fmt::{self, Debug, Display, Formatter};
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use ureq::http::{HeaderMap, HeaderName, HeaderValue};

/// Names that the transport sets itself.
const TAKEN: [&str; 8] = [
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Names and values, of HTTP or of gRPC's metadata. Values are secrets, and not shown.
#[derive(Clone, Default, PartialEq)]
pub struct Headers(Vec<(AsciiMetadataKey, AsciiMetadataValue)>);

/// Why these are no headers. No value is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadersError {
    /// Not `name=value,name=value`, percent-encoded.
    Form,
    /// Not the name of a header, or not one that can be set.
    Name {
        /// The name.
        name: String,
    },
    /// A value with other than printable ASCII characters.
    Value {
        /// Whose.
        name: String,
    },
}

impl Display for HeadersError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            HeadersError::Form => {
                f.write_str("not of the form name=value,name=value with %XX for special characters")
            }
            HeadersError::Name { name } => write!(f, "{name:?} is no header that can be set"),
            HeadersError::Value { name } => write!(
                f,
                "the value of {name:?} has other than printable ASCII characters"
            ),
        }
    }
}

impl std::error::Error for HeadersError {}

impl Headers {
    /// None.
    #[must_use]
    pub const fn new() -> Headers {
        Headers(Vec::new())
    }

    /// With one more. Names are taken as lower case; the last value of a name is the one that stays.
    ///
    /// # Errors
    /// A name or a value that cannot be sent, by HTTP or by gRPC.
    pub fn and(mut self, name: &str, value: &str) -> Result<Headers, HeadersError> {
        let lower = name.to_ascii_lowercase();
        let no_name = || HeadersError::Name { name: name.into() };
        let taken = TAKEN.contains(&&*lower) || lower.starts_with("grpc-");
        // A name with this end is for bytes, in gRPC.
        if taken || lower.ends_with("-bin") {
            return Err(no_name());
        }
        let key = AsciiMetadataKey::from_bytes(lower.as_bytes()).map_err(|_| no_name())?;
        let no_value = || HeadersError::Value { name: name.into() };
        // The type would let bytes from 128 on pass.
        if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            return Err(no_value());
        }
        let mut value = AsciiMetadataValue::try_from(value).map_err(|_| no_value())?;
        value.set_sensitive(true);
        self.0.retain(|(known, _)| *known != key);
        self.0.push((key, value));
        Ok(self)
    }

    /// As `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value,name=value`, percent-encoded.
    ///
    /// # Errors
    /// Another form, or what [`and`](Headers::and) refuses.
    pub fn parse(list: &str) -> Result<Headers, HeadersError> {
        let pairs = pairs(list).ok_or(HeadersError::Form)?;
        pairs
            .into_iter()
            .try_fold(Headers::new(), |headers, (name, value)| {
                headers.and(&name, &value)
            })
    }

    pub(super) fn grpc(&self) -> MetadataMap {
        let mut map = MetadataMap::new();
        for (key, value) in &self.0 {
            map.insert(key.clone(), value.clone());
        }
        map
    }

    pub(super) fn http(&self) -> HeaderMap {
        // Every name and value of the one is one of the other.
        let http = self.0.iter().filter_map(|(key, value)| {
            let name = HeaderName::from_bytes(key.as_str().as_bytes()).ok()?;
            let mut value = HeaderValue::from_bytes(value.as_encoded_bytes()).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        http.collect()
    }
}

/// The names.
impl Debug for Headers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = self.0.iter().map(|(key, _)| key.as_str());
        f.debug_list().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Headers, HeadersError};

    #[test]
    fn what_headers_are() {
        let headers = Headers::parse("Authorization=Bearer%20a%2Cb%3D%3D, x-team = a=b").unwrap();
        let http = headers.http();
        assert_eq!(http["authorization"], "Bearer a,b==");
        assert_eq!(http["x-team"], "a=b");
        assert_eq!(http.len(), 2);
        let grpc = headers.grpc();
        assert_eq!(grpc.get("authorization").unwrap(), "Bearer a,b==");
        let shown = format!("{headers:?} {http:?} {grpc:?}");
        assert!(!shown.contains("Bearer"), "{shown}");
        let last = Headers::parse("a=1,A=2").unwrap().http();
        assert_eq!((last.len(), &last["a"]), (1, &"2".parse().unwrap()));
    }

    #[test]
    fn what_no_headers_are() {
        for form in ["a", "a=b,", "=b", "a=%zz"] {
            assert_eq!(Headers::parse(form), Err(HeadersError::Form), "{form}");
        }
        for name in [
            "content-type",
            "Host",
            "grpc-timeout",
            "key-bin",
            "a b",
            "ä",
        ] {
            let wrong = Headers::parse(&format!("{name}=1"));
            let name = name.into();
            assert_eq!(wrong, Err(HeadersError::Name { name }));
        }
        for value in ["a%0Ab", "%C3%A4", "a%0D%0Ax-evil: 1"] {
            let error = Headers::parse(&format!("token={value}")).unwrap_err();
            assert_eq!(
                error.to_string(),
                "the value of \"token\" has other than printable ASCII characters"
            );
        }
    }
}
