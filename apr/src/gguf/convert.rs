//! Metadata values as Rust types.

use super::{Array, Value};

/// A Rust type that metadata values can be asked for as.
///
/// Integers convert between widths and signs where the value fits: writers disagree on the
/// width of the same key. Nothing else converts.
pub trait FromValue<'a>: Sized {
    /// What is expected, for messages.
    const EXPECTED: &'static str;

    /// The value as this type, if it is one.
    fn from_value(value: Value<'a>) -> Option<Self>;
}

fn integer(value: Value<'_>) -> Option<i128> {
    match value {
        Value::U8(v) => Some(v.into()),
        Value::I8(v) => Some(v.into()),
        Value::U16(v) => Some(v.into()),
        Value::I16(v) => Some(v.into()),
        Value::U32(v) => Some(v.into()),
        Value::I32(v) => Some(v.into()),
        Value::U64(v) => Some(v.into()),
        Value::I64(v) => Some(v.into()),
        _ => None,
    }
}

impl FromValue<'_> for u32 {
    const EXPECTED: &'static str = "an integer from 0 to 4294967295";
    fn from_value(value: Value<'_>) -> Option<Self> {
        integer(value)?.try_into().ok()
    }
}

impl FromValue<'_> for i32 {
    const EXPECTED: &'static str = "an integer from -2147483648 to 2147483647";
    fn from_value(value: Value<'_>) -> Option<Self> {
        integer(value)?.try_into().ok()
    }
}

impl FromValue<'_> for f32 {
    const EXPECTED: &'static str = "a number";
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::F32(v) => Some(v),
            Value::F64(v) => Some(v as f32),
            _ => None,
        }
    }
}

impl FromValue<'_> for bool {
    const EXPECTED: &'static str = "a boolean";
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(v) => Some(v),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const EXPECTED: &'static str = "a UTF-8 string";
    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::String(v) => std::str::from_utf8(v).ok(),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for &'a [u8] {
    const EXPECTED: &'static str = "a string";
    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::String(v) => Some(v),
            _ => None,
        }
    }
}

impl<'a> FromValue<'a> for Array<'a> {
    const EXPECTED: &'static str = "an array";
    fn from_value(value: Value<'a>) -> Option<Self> {
        match value {
            Value::Array(v) => Some(v),
            _ => None,
        }
    }
}
