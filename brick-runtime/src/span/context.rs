//! W3C Trace Context: `traceparent`, as a header and as an environment variable.
//!
//! <https://www.w3.org/TR/trace-context-2/#traceparent-header>: `version-trace-parent-flags`, in lower-case
//! hexadecimal digits, such as `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.

use super::id::{SpanId, TraceId};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The name of the environment variable, as OpenTelemetry's specification has it.
const VARIABLE: &str = "TRACEPARENT";

/// Bytes of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// The flags of a trace. Bits without a meaning in version 00 are neither read nor sent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TraceFlags(u8);

impl TraceFlags {
    /// The caller may have recorded its part of the trace.
    pub const SAMPLED: TraceFlags = TraceFlags(1);
    /// At least the last 7 bytes of the trace id are random.
    pub const RANDOM: TraceFlags = TraceFlags(2);

    /// Whether the caller may have recorded its part: a callee that follows its caller records
    /// nothing where this is off.
    #[must_use]
    pub fn sampled(self) -> bool {
        self.0 & TraceFlags::SAMPLED.0 != 0
    }

    /// As one byte.
    #[must_use]
    pub fn byte(self) -> u8 {
        self.0
    }
}

impl std::ops::BitOr for TraceFlags {
    type Output = TraceFlags;
    fn bitor(self, other: TraceFlags) -> TraceFlags {
        TraceFlags(self.0 | other.0)
    }
}

/// A place in a trace: what a caller tells the process it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The span that calls: the parent of what the callee does.
    pub span_id: SpanId,
    /// The flags.
    pub flags: TraceFlags,
}

/// Why a text is no `traceparent`. By the specification a callee then starts a trace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceparentError {
    /// Not of the form `00-<32 digits>-<16 digits>-<2 digits>`.
    Form,
    /// Something else than a lower-case hexadecimal digit, at this byte.
    Digit {
        /// From 0, after leading white space.
        at: usize,
    },
    /// Version `ff` is forbidden.
    Version,
    /// A trace id of zeros only.
    TraceId,
    /// A span id of zeros only.
    SpanId,
    /// The environment variable is not Unicode.
    NotUnicode,
}

impl Display for TraceparentError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            TraceparentError::Form => {
                f.write_str("a traceparent has the form 00-<32 digits>-<16 digits>-<2 digits>")
            }
            TraceparentError::Digit { at } => {
                write!(f, "byte {at} of a traceparent must be one of 0-9 and a-f")
            }
            TraceparentError::Version => f.write_str("a traceparent of version ff is invalid"),
            TraceparentError::TraceId => f.write_str("a trace id cannot be all zeros"),
            TraceparentError::SpanId => f.write_str("a parent id cannot be all zeros"),
            TraceparentError::NotUnicode => f.write_str("a traceparent is ASCII"),
        }
    }
}

impl std::error::Error for TraceparentError {}

impl TraceContext {
    /// The context that the environment hands over in `TRACEPARENT`; `None` where it is unset or
    /// empty.
    ///
    /// # Errors
    /// Where it is no `traceparent`: then there is no caller to name, and a trace of one's own is due.
    pub fn from_env() -> Result<Option<TraceContext>, TraceparentError> {
        match std::env::var(VARIABLE) {
            Ok(value) if value.is_empty() => Ok(None),
            Ok(value) => value.parse().map(Some),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err(TraceparentError::NotUnicode),
        }
    }

    /// What a child process is to find in its environment: the variable and its value.
    #[must_use]
    pub fn to_env(self) -> (&'static str, String) {
        (VARIABLE, self.to_string())
    }
}

/// Reads a header's value or the variable's. White space around it is no part of it (RFC 9110 §5.5).
///
/// Of a version after 00 the parts that 00 has are read, and whatever follows behind another
/// hyphen is left alone; of its flags only `sampled` is understood.
impl FromStr for TraceContext {
    type Err = TraceparentError;

    fn from_str(text: &str) -> Result<TraceContext, TraceparentError> {
        let text = text.trim_matches([' ', '\t']).as_bytes();
        let hyphens = [2, 35, 52];
        let formed = text.len() >= LENGTH && hyphens.iter().all(|&at| text[at] == b'-');
        if !formed {
            return Err(TraceparentError::Form);
        }
        let [version] = digits(text, 0)?;
        match version {
            0xff => return Err(TraceparentError::Version),
            0 if text.len() != LENGTH => return Err(TraceparentError::Form),
            _ if text.len() > LENGTH && text[LENGTH] != b'-' => {
                return Err(TraceparentError::Form);
            }
            _ => {}
        }
        let trace_id = TraceId::new(digits(text, 3)?).ok_or(TraceparentError::TraceId)?;
        let span_id = SpanId::new(digits(text, 36)?).ok_or(TraceparentError::SpanId)?;
        let [flags] = digits(text, 53)?;
        let known = match version {
            0 => TraceFlags::SAMPLED | TraceFlags::RANDOM,
            _ => TraceFlags::SAMPLED,
        };
        Ok(TraceContext {
            trace_id,
            span_id,
            flags: TraceFlags(flags & known.0),
        })
    }
}

/// `N` bytes from the `2 * N` digits that begin at `at`, which must be there.
fn digits<const N: usize>(text: &[u8], at: usize) -> Result<[u8; N], TraceparentError> {
    let digit = |at: usize| match text[at] {
        digit @ b'0'..=b'9' => Ok(digit - b'0'),
        digit @ b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(TraceparentError::Digit { at }),
    };
    let mut bytes = [0; N];
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = digit(at + 2 * i)? << 4 | digit(at + 2 * i + 1)?;
    }
    Ok(bytes)
}

/// A `traceparent` of version 00.
impl Display for TraceContext {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let TraceContext {
            trace_id,
            span_id,
            flags,
        } = self;
        write!(f, "00-{trace_id}-{span_id}-{:02x}", flags.byte())
    }
}
