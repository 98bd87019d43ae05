//! Attributes: names and typed values.

use crate::registry::{Backend, BrickInfo, Budget};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(Cow<'static, str>),
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A floating-point number.
    Double(f64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Value {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(Cow::Owned(text))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Int(value.into())
    }
}

/// Above `i64::MAX`, which no format has an integer for, the nearest floating-point number.
impl From<u64> for Value {
    fn from(value: u64) -> Value {
        i64::try_from(value).map_or(Value::Double(value as f64), Value::Int)
    }
}

/// As [`u64`].
impl From<usize> for Value {
    fn from(value: usize) -> Value {
        Value::from(value as u64)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Double(value)
    }
}

/// The bare value.
impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => f.pad(text),
            Value::Bool(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::Double(value) => value.fmt(f),
        }
    }
}

/// Names and values, in the order in which they were given; a name occurs once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(Cow<'static, str>, Value)>);

impl Attributes {
    /// None.
    #[must_use]
    pub const fn new() -> Attributes {
        Attributes(Vec::new())
    }

    /// With one more. The last value of a name is the one that stays.
    #[must_use]
    pub fn and(
        mut self,
        name: impl Into<Cow<'static, str>>,
        value: impl Into<Value>,
    ) -> Attributes {
        self.set(name, value);
        self
    }

    /// With one more where there is a value: what is not known is left out, never 0.
    #[must_use]
    pub fn and_if(
        self,
        name: impl Into<Cow<'static, str>>,
        value: Option<impl Into<Value>>,
    ) -> Attributes {
        match value {
            Some(value) => self.and(name, value),
            None => self,
        }
    }

    /// Sets one. The last value of a name is the one that stays.
    pub fn set(&mut self, name: impl Into<Cow<'static, str>>, value: impl Into<Value>) {
        let (name, value) = (name.into(), value.into());
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
    }

    /// Takes in all of `others`.
    pub fn extend(&mut self, others: Attributes) {
        for (name, value) in others.0 {
            self.set(name, value);
        }
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value)
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The names of attributes. `gen_ai.*` belong on spans of requests and tokens only
/// (<https://opentelemetry.io/docs/specs/semconv/gen-ai/>, status: development), `code.*` and
/// `thread.*` are OpenTelemetry's for any span; `brick.*` are this project's, for no convention
/// has a kernel in it.
pub mod keys {
    /// `text_completion`, `chat`, …: what was asked for.
    pub const GEN_AI_OPERATION: &str = "gen_ai.operation.name";
    /// Who serves the model.
    pub const GEN_AI_PROVIDER: &str = "gen_ai.provider.name";
    /// The model's name.
    pub const GEN_AI_MODEL: &str = "gen_ai.request.model";
    /// The most tokens that were asked for.
    pub const GEN_AI_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
    /// Tokens of the prompt.
    pub const GEN_AI_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
    /// Tokens that were generated.
    pub const GEN_AI_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
    /// The function, with its module's path.
    pub const CODE_FUNCTION: &str = "code.function.name";
    /// The source file.
    pub const CODE_FILE: &str = "code.file.path";
    /// The line in it, from 1.
    pub const CODE_LINE: &str = "code.line.number";
    /// The thread's id.
    pub const THREAD_ID: &str = "thread.id";
    /// The brick's name.
    pub const BRICK_NAME: &str = "brick.name";
    /// The crate that declares it.
    pub const BRICK_CRATE: &str = "brick.crate";
    /// What it is grouped by.
    pub const BRICK_CATEGORY: &str = "brick.category";
    /// The backend, where it is not the primary one.
    pub const BRICK_BACKEND: &str = "brick.backend";
    /// FNV-1a-64 of crate and name, in 16 hexadecimal digits.
    pub const BRICK_WIRE_ID: &str = "brick.wire_id";
    /// The budget per call in nanoseconds, where it is the same for every call.
    pub const BRICK_BUDGET_NS: &str = "brick.budget_ns";
    /// Declared floating-point operations of this call.
    pub const BRICK_FLOPS: &str = "brick.flops";
    /// Declared bytes of this call.
    pub const BRICK_BYTES: &str = "brick.bytes";
    /// Declared tokens of this call.
    pub const BRICK_TOKENS: &str = "brick.tokens";
    /// Declared elements of this call.
    pub const BRICK_ELEMENTS: &str = "brick.elements";
    /// What was recorded: `brick`, `poll`, `check`, `layer`, `token`, `scope`, `profiler`.
    pub const BRICK_EVENT: &str = "brick.event";
    /// Polls with the same number are of one async call.
    pub const BRICK_CALL: &str = "brick.async_call";
    /// True where the span had not ended when the recording stopped, which then is its end.
    pub const BRICK_OPEN: &str = "brick.open";
    /// On a span with an error: the name of the brick at which it showed.
    pub const BRICK_FAILED: &str = "brick.failed";
    /// The layer that the call was in, from 0.
    pub const BRICK_LAYER: &str = "brick.layer";
    /// The position (of a token in its sequence) that the call was for, from 0.
    pub const BRICK_POSITION: &str = "brick.position";
    /// Why a call was escalated: `unstable_timing`, `low_efficiency`, `both`, `requested`.
    pub const ESCALATION_REASON: &str = "brick.escalation.reason";
    /// Standard deviation over mean, where that was the reason.
    pub const ESCALATION_CV: &str = "brick.escalation.cv";
    /// Budget over time, where that was the reason.
    pub const ESCALATION_EFFICIENCY: &str = "brick.escalation.efficiency";
    /// The budget that the call was held to, in microseconds.
    pub const ESCALATION_BUDGET_US: &str = "brick.escalation.budget_us";
    /// Microseconds that the call took, tracing taken out.
    pub const ESCALATION_DURATION_US: &str = "brick.escalation.duration_us";
    /// What its system calls were observed with: `perf`, `ptrace`, `cpu`.
    pub const ESCALATION_BACKEND: &str = "brick.escalation.backend";
    /// Why the breakdown may lack something.
    pub const ESCALATION_PARTIAL: &str = "brick.escalation.partial";
    /// Why there is no breakdown.
    pub const ESCALATION_NO_BREAKDOWN: &str = "brick.escalation.no_breakdown";
    /// Threads that waited from the call's beginning to its end, and in which system call.
    pub const ESCALATION_WAITING: &str = "brick.escalation.waiting_threads";
    /// What a figure of the breakdown begins with: `brick.syscalls.futex_us`, `…futex_calls`,
    /// `…compute_us`, `…tracer_us`, ….
    pub const SYSCALLS: &str = "brick.syscalls.";
    /// Calls and scopes that the recording had no room for.
    pub const RECORDING_DROPPED: &str = "brick.recording.dropped";
    /// What a recorded call cost, in nanoseconds.
    pub const RECORDING_NS: &str = "brick.recording.ns_per_event";
    /// The record's logical clock.
    pub const LOGICAL_CLOCK: &str = "brick.logical_clock";
}

/// What the registry knows of a brick: `code.*` and `brick.*`.
#[must_use]
pub fn code_attributes(brick: &BrickInfo) -> Attributes {
    let budget = match brick.budget {
        Budget::Fixed { ns } => Some(ns),
        Budget::None | Budget::PerCall { .. } => None,
    };
    let backend = (brick.backend != Backend::Primary).then(|| format!("{:?}", brick.backend));
    Attributes::new()
        .and(
            keys::CODE_FUNCTION,
            format!("{}::{}", brick.module, brick.function),
        )
        .and(keys::CODE_FILE, brick.file)
        .and(keys::CODE_LINE, brick.line)
        .and(keys::BRICK_NAME, brick.name)
        .and(keys::BRICK_CRATE, brick.crate_name)
        .and(keys::BRICK_CATEGORY, brick.category)
        .and_if(keys::BRICK_BACKEND, backend)
        .and(keys::BRICK_WIRE_ID, format!("{:016x}", brick.wire_id))
        .and_if(keys::BRICK_BUDGET_NS, budget)
}
