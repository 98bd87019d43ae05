//! Parquet: a row per span, for whoever asks questions with a table.
//!
//! Columns, with `brick.spans/1` as the `schema` in the file's metadata: `trace_id` (16 bytes), `span_id` and
//! `parent_span_id` (8 bytes; null for a root), `span_name`, `span_kind`, `start_time_nanos` and
//! `end_time_nanos` (timestamps in UTC), `duration_nanos`, `logical_clock` (null where none was asked),
//! `status_code`, `status_message` (null unless an error), `attributes_json` and `resource_json` (an object),
//! `process_id`, `thread_id` (null where not known).

use crate::span::{Attributes, SpanRecord, Status, Value};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, FixedLenByteArray};
use parquet::data_type::{FixedLenByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "
message spans {
    required fixed_len_byte_array(16) trace_id;
    required fixed_len_byte_array(8) span_id;
    optional fixed_len_byte_array(8) parent_span_id;
    required binary span_name (STRING);
    required binary span_kind (STRING);
    required int64 start_time_nanos (TIMESTAMP(NANOS, true));
    required int64 end_time_nanos (TIMESTAMP(NANOS, true));
    required int64 duration_nanos (INTEGER(64, false));
    optional int64 logical_clock (INTEGER(64, false));
    required binary status_code (STRING);
    optional binary status_message (STRING);
    required binary attributes_json (STRING);
    required binary resource_json (STRING);
    required int32 process_id (INTEGER(32, false));
    optional int64 thread_id (INTEGER(64, false));
}";

/// Rows that are written together: some 8 MiB in memory.
const GROUP: usize = 8192;

/// Why spans could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The encoder's or the output's.
    Encode(ParquetError),
    /// A time past the year 2262, which a Parquet timestamp cannot hold.
    Time {
        /// Nanoseconds since 1970.
        unix_ns: u64,
    },
}

impl Display for WriteError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Encode(error) => Display::fmt(error, f),
            WriteError::Time { unix_ns } => {
                write!(
                    f,
                    "{unix_ns} ns since 1970 is more than a Parquet timestamp holds"
                )
            }
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Encode(error) => Some(error),
            WriteError::Time { .. } => None,
        }
    }
}

impl From<ParquetError> for WriteError {
    fn from(error: ParquetError) -> WriteError {
        WriteError::Encode(error)
    }
}

/// Writes a whole file of `spans` to `out`, and returns how many they were.
///
/// # Errors
/// Those of `out`, and a time that Parquet cannot hold: what has been written then is no Parquet file.
pub fn write_spans<W: Write + Send>(
    out: W,
    spans: impl IntoIterator<Item = SpanRecord>,
) -> Result<u64, WriteError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let mut writer = SerializedFileWriter::new(out, schema, properties())?;
    let mut spans = spans.into_iter();
    let mut rows = 0;
    loop {
        let group: Vec<SpanRecord> = spans.by_ref().take(GROUP).collect();
        if group.is_empty() {
            break;
        }
        rows += group.len() as u64;
        check_times(&group)?;
        let mut columns = writer.next_row_group()?;
        write_group(&mut columns, &group)?;
        columns.close()?;
    }
    writer.close()?;
    Ok(rows)
}

fn properties() -> Arc<WriterProperties> {
    let version = KeyValue::new("schema".into(), "brick.spans/1".to_owned());
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![version]));
    // These hardly ever repeat: a dictionary of them is the column once more.
    for column in [
        "span_id",
        "start_time_nanos",
        "end_time_nanos",
        "logical_clock",
    ] {
        let column = ColumnPath::from(column);
        properties = properties
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::PLAIN);
    }
    Arc::new(properties.build())
}

fn check_times(group: &[SpanRecord]) -> Result<(), WriteError> {
    let times = group
        .iter()
        .flat_map(|span| [span.start_unix_ns, span.end_unix_ns]);
    let too_late = times.into_iter().find(|&time| i64::try_from(time).is_err());
    too_late.map_or(Ok(()), |unix_ns| Err(WriteError::Time { unix_ns }))
}

type Group<'a, W> = SerializedRowGroupWriter<'a, W>;
type Written = Result<(), ParquetError>;

/// The columns in the order of the schema. Unsigned numbers are stored by their bits, as Parquet has
/// them.
fn write_group<W: Write + Send>(group: &mut Group<'_, W>, spans: &[SpanRecord]) -> Written {
    let fixed = |bytes: &[u8]| FixedLenByteArray::from(bytes.to_vec());
    let text = |text: &str| ByteArray::from(text.as_bytes().to_vec());
    let json = |attributes: &Attributes| ByteArray::from(json(attributes).into_bytes());
    column::<FixedLenByteArrayType, _>(group, spans, |s| fixed(&s.trace_id.bytes()))?;
    column::<FixedLenByteArrayType, _>(group, spans, |s| fixed(&s.span_id.bytes()))?;
    optional::<FixedLenByteArrayType, _>(group, spans, |s| {
        s.parent_span_id.map(|id| fixed(&id.bytes()))
    })?;
    column::<ByteArrayType, _>(group, spans, |s| text(&s.name))?;
    column::<ByteArrayType, _>(group, spans, |s| text(s.kind.name()))?;
    column::<Int64Type, _>(group, spans, |s| s.start_unix_ns.cast_signed())?;
    column::<Int64Type, _>(group, spans, |s| s.end_unix_ns.cast_signed())?;
    column::<Int64Type, _>(group, spans, |s| s.duration_ns().cast_signed())?;
    optional::<Int64Type, _>(group, spans, |s| s.logical_clock.map(u64::cast_signed))?;
    column::<ByteArrayType, _>(group, spans, |s| text(s.status.name()))?;
    optional::<ByteArrayType, _>(group, spans, |s| match &s.status {
        Status::Error { message } => Some(text(message)),
        Status::Unset | Status::Ok => None,
    })?;
    column::<ByteArrayType, _>(group, spans, |s| json(&s.attributes))?;
    column::<ByteArrayType, _>(group, spans, |s| json(&s.resource.attributes))?;
    column::<Int32Type, _>(group, spans, |s| s.pid.cast_signed())?;
    optional::<Int64Type, _>(group, spans, |s| s.tid.map(u64::cast_signed))
}

fn column<T: DataType, W: Write + Send>(
    group: &mut Group<'_, W>,
    spans: &[SpanRecord],
    value: impl Fn(&SpanRecord) -> T::T,
) -> Written {
    let values: Vec<T::T> = spans.iter().map(value).collect();
    write::<T, W>(group, &values, None)
}

/// Only those that are there, and for every row whether it is one.
fn optional<T: DataType, W: Write + Send>(
    group: &mut Group<'_, W>,
    spans: &[SpanRecord],
    value: impl Fn(&SpanRecord) -> Option<T::T>,
) -> Written {
    let values: Vec<Option<T::T>> = spans.iter().map(value).collect();
    let there: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    write::<T, W>(group, &values, Some(&there))
}

fn write<T: DataType, W: Write + Send>(
    group: &mut Group<'_, W>,
    values: &[T::T],
    there: Option<&[i16]>,
) -> Written {
    let missing = || ParquetError::General("the schema has fewer columns than are written".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, there, None)?;
    column.close()
}

/// One object. What JSON has no number for (NaN, infinities) is a string.
fn json(attributes: &Attributes) -> String {
    let value = |value: &Value| match value {
        Value::Text(text) => serde_json::Value::from(&**text),
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::Double(value) if value.is_finite() => (*value).into(),
        Value::Double(value) => value.to_string().into(),
    };
    let members = attributes.iter().map(|(key, v)| (key.to_owned(), value(v)));
    serde_json::Value::Object(members.collect()).to_string()
}
