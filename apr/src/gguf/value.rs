//! Metadata values, borrowed from the file.

use super::GgufError;
use super::cursor::Cursor;
use std::fmt;

/// The type of a metadata value (`enum gguf_metadata_value_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)] // The variants are the numbers they name.
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(id as usize).copied()
    }

    /// Bytes that one value takes in the file, at least: a string takes its length field.
    fn min_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 | Self::Bool => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 | Self::String => 8,
            Self::Array => 12,
        }
    }

    /// The name shown to people: `u32`, `string`, …
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }
}

/// One metadata value.
///
/// Strings are bytes: the format says UTF-8, but vocabularies in the wild hold pieces of
/// characters. Ask for `&str` through [`FromValue`](super::FromValue) where text is needed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // The variants are the types they name.
pub enum Value<'a> {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(&'a [u8]),
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// Reads the type id and value of metadata key `key`.
    pub(super) fn read(cursor: &mut Cursor<'a>, key: &str) -> Result<Self, GgufError> {
        match read_type(cursor, key)? {
            ValueType::Array => Array::read(cursor, key).map(Self::Array),
            ty => Self::read_scalar(cursor, ty, key),
        }
    }

    fn read_scalar(cursor: &mut Cursor<'a>, ty: ValueType, key: &str) -> Result<Self, GgufError> {
        let bytes = match ty {
            ValueType::String => cursor.string("a metadata string")?,
            _ => cursor.take(ty.min_bytes(), "a metadata value")?,
        };
        if ty == ValueType::Bool && bytes[0] > 1 {
            let value = bytes[0];
            return Err(GgufError::Bool {
                key: key.to_owned(),
                value,
            });
        }
        Ok(Self::decode(ty, bytes))
    }

    /// A value of type `ty` from exactly its bytes, which the caller has measured.
    fn decode(ty: ValueType, bytes: &'a [u8]) -> Self {
        fn le<const N: usize>(bytes: &[u8]) -> [u8; N] {
            let mut out = [0; N];
            out.copy_from_slice(bytes);
            out
        }
        match ty {
            ValueType::U8 => Self::U8(bytes[0]),
            ValueType::I8 => Self::I8(i8::from_le_bytes(le(bytes))),
            ValueType::U16 => Self::U16(u16::from_le_bytes(le(bytes))),
            ValueType::I16 => Self::I16(i16::from_le_bytes(le(bytes))),
            ValueType::U32 => Self::U32(u32::from_le_bytes(le(bytes))),
            ValueType::I32 => Self::I32(i32::from_le_bytes(le(bytes))),
            ValueType::F32 => Self::F32(f32::from_le_bytes(le(bytes))),
            ValueType::U64 => Self::U64(u64::from_le_bytes(le(bytes))),
            ValueType::I64 => Self::I64(i64::from_le_bytes(le(bytes))),
            ValueType::F64 => Self::F64(f64::from_le_bytes(le(bytes))),
            ValueType::Bool => Self::Bool(bytes[0] != 0),
            ValueType::String => Self::String(bytes),
            ValueType::Array => unreachable!("arrays are read by Array::read"),
        }
    }

    /// The type and, where it is short, the value: for messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::String(s) if std::str::from_utf8(s).is_err() => {
                format!("a string of {} bytes that is not UTF-8", s.len())
            }
            Self::Array(a) => format!("an array of {} {}", a.len(), a.elem_type().name()),
            _ => format!("{} {self}", self.value_type().name()),
        }
    }

    /// The type of the value.
    pub fn value_type(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F32(_) => ValueType::F32,
            Self::F64(_) => ValueType::F64,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
        }
    }
}

/// Characters of a string, and elements of an array, that [`Display`](fmt::Display) shows.
const SHOWN_CHARS: usize = 60;
const SHOWN_ELEMS: usize = 4;

/// One line, safe for a terminal: strings quoted, control characters escaped, and what is long
/// cut with its length told.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U8(v) => write!(f, "{v}"),
            Self::I8(v) => write!(f, "{v}"),
            Self::U16(v) => write!(f, "{v}"),
            Self::I16(v) => write!(f, "{v}"),
            Self::U32(v) => write!(f, "{v}"),
            Self::I32(v) => write!(f, "{v}"),
            Self::U64(v) => write!(f, "{v}"),
            Self::I64(v) => write!(f, "{v}"),
            Self::F32(v) => write!(f, "{v:?}"),
            Self::F64(v) => write!(f, "{v:?}"),
            Self::Bool(v) => write!(f, "{v}"),
            Self::String(s) => write_string(f, s),
            Self::Array(array) => {
                f.write_str("[")?;
                for (i, value) in array.iter().take(SHOWN_ELEMS).enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { ", " })?;
                }
                match array.len().saturating_sub(SHOWN_ELEMS as u64) {
                    0 => f.write_str("]"),
                    more => write!(f, ", … {more} more]"),
                }
            }
        }
    }
}

fn write_string(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    // Enough for what is shown and one character more, at four bytes each.
    let head = &bytes[..bytes.len().min(4 * (SHOWN_CHARS + 1))];
    let text = String::from_utf8_lossy(head);
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    write!(f, "{shown:?}")?;
    if text.chars().nth(SHOWN_CHARS).is_some() {
        write!(f, "… ({} bytes)", bytes.len())?;
    }
    Ok(())
}

fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<ValueType, GgufError> {
    let id = cursor.u32("a metadata value type")?;
    ValueType::from_id(id).ok_or_else(|| GgufError::ValueType {
        key: key.to_owned(),
        id,
    })
}

/// An array of values of one type, still in the file's bytes.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    elem: ValueType,
    len: u64,
    bytes: &'a [u8],
}

impl<'a> Array<'a> {
    fn read(cursor: &mut Cursor<'a>, key: &str) -> Result<Self, GgufError> {
        let elem = read_type(cursor, key)?;
        if elem == ValueType::Array {
            return Err(GgufError::NestedArray {
                key: key.to_owned(),
            });
        }
        let len = cursor.u64("an array length")?;
        let what = || format!("length of array {key:?}");
        cursor.check_count(what, len, elem.min_bytes())?;
        let mut end = *cursor;
        match elem {
            // Each element is looked at once, here, so that iteration needs no checks.
            ValueType::String => {
                for _ in 0..len {
                    end.string("a metadata string")?;
                }
            }
            ValueType::Bool => {
                for _ in 0..len {
                    Value::read_scalar(&mut end, elem, key)?;
                }
            }
            // The product was checked just above.
            _ => {
                end.take(len * elem.min_bytes(), "an array")?;
            }
        }
        let size = (end.at() - cursor.at()) as u64;
        let bytes = cursor.take(size, "an array")?;
        Ok(Self { elem, len, bytes })
    }

    /// The type of its elements.
    pub fn elem_type(&self) -> ValueType {
        self.elem
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes it takes in the file, without its header.
    pub fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The elements of an array of strings; of any other array, none.
    ///
    /// As [`iter`](Self::iter) gives them, but quick enough for the hundreds of thousands that a
    /// vocabulary has.
    pub fn strings(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let is_strings = self.elem == ValueType::String;
        let mut bytes = if is_strings { self.bytes } else { &[] };
        std::iter::from_fn(move || {
            // Array::read has walked the elements: the lengths are right.
            let (len, rest) = bytes.split_first_chunk()?;
            let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
            let (string, rest) = rest.split_at_checked(len)?;
            bytes = rest;
            Some(string)
        })
    }

    /// The elements of an array of `f32`; of any other array, none.
    pub fn f32s(&self) -> impl Iterator<Item = f32> + use<'a> {
        self.of_four(ValueType::F32).map(f32::from_le_bytes)
    }

    /// The elements of an array of `i32`; of any other array, none.
    pub fn i32s(&self) -> impl Iterator<Item = i32> + use<'a> {
        self.of_four(ValueType::I32).map(i32::from_le_bytes)
    }

    /// The bytes of each element, if `elem`, a type of four bytes, is what they are.
    fn of_four(&self, elem: ValueType) -> impl Iterator<Item = [u8; 4]> + use<'a> {
        let bytes = if self.elem == elem { self.bytes } else { &[] };
        bytes.as_chunks().0.iter().copied()
    }

    /// The elements, one after the other.
    pub fn iter(&self) -> ArrayIter<'a> {
        ArrayIter {
            elem: self.elem,
            left: self.len,
            bytes: self.bytes,
        }
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} {})", self.len, self.elem.name())
    }
}

/// Iterator over the elements of an [`Array`].
#[derive(Clone)]
pub struct ArrayIter<'a> {
    elem: ValueType,
    left: u64,
    bytes: &'a [u8],
}

impl<'a> Iterator for ArrayIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        // Array::read has walked the elements: the lengths are right.
        let size = match self.elem {
            ValueType::String => {
                let (len, rest) = self.bytes.split_first_chunk::<8>()?;
                self.bytes = rest;
                u64::from_le_bytes(*len)
            }
            ty => ty.min_bytes(),
        };
        let (value, rest) = self.bytes.split_at_checked(usize::try_from(size).ok()?)?;
        self.bytes = rest;
        Some(Value::decode(self.elem, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn long_strings_are_cut_and_say_so() {
        for c in ["a", "é", "🦙"] {
            let text = c.repeat(61);
            let expected = format!("{:?}… ({} bytes)", c.repeat(60), text.len());
            assert_eq!(Value::String(text.as_bytes()).to_string(), expected);
            let fits = c.repeat(60);
            assert_eq!(
                Value::String(fits.as_bytes()).to_string(),
                format!("{fits:?}")
            );
        }
        assert_eq!(Value::String(b"\x1b[2J\n").to_string(), r#""\u{1b}[2J\n""#);
    }
}
