//! What `apr inspect` reports about a file.

mod human;

use crate::arch::Config;
use crate::gguf::{Gguf, Value};
use crate::tokenizer::Tokenizer;
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// Elements of a metadata array that the JSON shows.
const HEAD: usize = 8;

/// All about one file: read from its header, or derived from what is read there; with
/// [`check`](Self::check) also from its data.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    schema: &'static str,
    model: &'a str,
    gguf_version: u32,
    file_bytes: u64,
    alignment_bytes: u64,
    data_offset_bytes: u64,
    metadata: Vec<Entry<'a>>,
    tensors: Vec<TensorLine<'a>>,
    /// By type, in the order of type ids. Derived from the dimensions.
    totals: Vec<TypeTotal>,
    /// Derived: the sums of `totals`.
    n_params: u64,
    tensor_bytes: u64,
    /// The architecture that the file can be run as; `null` with problems that say why not.
    runs_as: Option<&'static str>,
    problems: Vec<Problem>,
    /// `null` where it was not asked for.
    check: Option<Check>,
}

/// One metadata entry.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    key: &'a str,
    #[serde(rename = "type")]
    type_name: &'static str,
    value: Json,
    /// The value on one line, for people.
    #[serde(skip)]
    shown: String,
}

#[derive(Debug, Serialize)]
struct TensorLine<'a> {
    name: &'a str,
    dims: Vec<u64>,
    #[serde(rename = "type")]
    type_name: &'static str,
    bytes: u64,
    /// Counted from the start of the file.
    offset_bytes: u64,
}

#[derive(Debug, Serialize)]
struct TypeTotal {
    #[serde(rename = "type")]
    type_name: &'static str,
    tensors: u64,
    params: u64,
    bytes: u64,
}

/// Something that keeps the file from being run, or that makes its results worthless.
#[derive(Debug, Serialize)]
pub struct Problem {
    /// Where it was found: `architecture`, `tokenizer` or `data`.
    pub kind: &'static str,
    /// One line.
    pub message: String,
}

/// What a scan of the tensor data covered. Faults are among the problems.
#[derive(Debug, Serialize)]
struct Check {
    tensors: u64,
    bytes: u64,
    faults: Vec<Fault>,
    /// Tensors of types that no kernel knows.
    unchecked: Vec<String>,
}

/// The first bad scale of a tensor.
#[derive(Debug, Serialize)]
struct Fault {
    tensor: String,
    row: usize,
    /// The block in the row; the element, for types without blocks.
    block: usize,
}

impl<'a> Report<'a> {
    /// Reports on `gguf`, called `model`. Touches no tensor data.
    pub fn new(model: &'a str, gguf: &Gguf<'a>) -> Self {
        let mut problems = Vec::new();
        let runs_as = arch_problems(gguf, &mut problems);
        if let Err(error) = Tokenizer::from_gguf(gguf) {
            problems.push(Problem::new("tokenizer", error));
        }
        let totals = totals(gguf);
        Self {
            schema: "apr.inspect/1",
            model,
            gguf_version: gguf.version(),
            file_bytes: gguf.size(),
            alignment_bytes: gguf.alignment(),
            data_offset_bytes: gguf.data_offset(),
            metadata: gguf.metadata().iter().map(entry).collect(),
            tensors: tensor_lines(gguf),
            n_params: totals.iter().map(|t| t.params).sum(),
            tensor_bytes: totals.iter().map(|t| t.bytes).sum(),
            totals,
            runs_as: runs_as.filter(|_| problems.is_empty()),
            problems,
            check: None,
        }
    }

    /// What is wrong with the file.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Reads all tensor data and adds the faults to the problems.
    pub fn check(&mut self, gguf: &Gguf<'a>) {
        let mut check = Check {
            tensors: 0,
            bytes: 0,
            faults: Vec::new(),
            unchecked: Vec::new(),
        };
        for tensor in gguf.tensors() {
            let name = tensor.name().to_owned();
            let Ok(matrix) = tensor.matrix() else {
                let message =
                    format!("tensor {name:?} cannot be checked: no kernel knows its type");
                self.problems.push(Problem::new("data", message));
                check.unchecked.push(name);
                continue;
            };
            check.tensors += 1;
            check.bytes += tensor.bytes().len() as u64;
            if let Some(bad) = matrix.find_bad_scale() {
                let fault = Fault {
                    tensor: name,
                    row: bad.row,
                    block: bad.block,
                };
                self.problems.push(Problem::new(
                    "data",
                    fault.describe(tensor.ggml_type().block_elems()),
                ));
                check.faults.push(fault);
            }
        }
        self.runs_as = self.runs_as.filter(|_| self.problems.is_empty());
        self.check = Some(check);
    }
}

impl Problem {
    fn new(kind: &'static str, message: impl ToString) -> Self {
        Self {
            kind,
            message: message.to_string(),
        }
    }
}

impl Fault {
    fn describe(&self, block_elems: u64) -> String {
        let Self { tensor, row, block } = self;
        match block_elems {
            1 => format!(
                "tensor {tensor:?} has a NaN or infinite value in row {row}, element {block}"
            ),
            _ => {
                format!("tensor {tensor:?} has a NaN or infinite scale in row {row}, block {block}")
            }
        }
    }
}

/// Adds what keeps the file from being run as the architecture that it names, which is returned
/// if it is one of ours.
fn arch_problems(gguf: &Gguf<'_>, problems: &mut Vec<Problem>) -> Option<&'static str> {
    let (name, found) = match Config::read(gguf) {
        Ok(config) => (
            Some(config.architecture.name()),
            config.tensor_problems(gguf),
        ),
        Err(found) => (None, found),
    };
    problems.extend(found.into_iter().map(|p| Problem::new("architecture", p)));
    name
}

fn entry<'a>((key, value): &(&'a str, Value<'a>)) -> Entry<'a> {
    Entry {
        key,
        type_name: value.value_type().name(),
        value: to_json(value),
        shown: value.to_string(),
    }
}

/// Arrays give their length and first elements. Strings that are not UTF-8 lose what is not;
/// numbers that JSON has no word for (NaN, infinity) become `null`.
fn to_json(value: &Value<'_>) -> Json {
    match value {
        Value::U8(v) => json!(v),
        Value::I8(v) => json!(v),
        Value::U16(v) => json!(v),
        Value::I16(v) => json!(v),
        Value::U32(v) => json!(v),
        Value::I32(v) => json!(v),
        Value::U64(v) => json!(v),
        Value::I64(v) => json!(v),
        Value::F32(v) => json!(v),
        Value::F64(v) => json!(v),
        Value::Bool(v) => json!(v),
        Value::String(v) => json!(String::from_utf8_lossy(v)),
        Value::Array(array) => json!({
            "type": array.elem_type().name(),
            "len": array.len(),
            "head": array.iter().take(HEAD).map(|v| to_json(&v)).collect::<Vec<_>>(),
        }),
    }
}

fn tensor_lines<'a>(gguf: &Gguf<'a>) -> Vec<TensorLine<'a>> {
    let line = |tensor: &crate::gguf::Tensor<'a>| TensorLine {
        name: tensor.name(),
        dims: tensor.dims().to_vec(),
        type_name: tensor.ggml_type().name(),
        bytes: tensor.bytes().len() as u64,
        offset_bytes: gguf.data_offset() + tensor.offset(),
    };
    gguf.tensors().iter().map(line).collect()
}

fn totals(gguf: &Gguf<'_>) -> Vec<TypeTotal> {
    let mut by_id = BTreeMap::new();
    for tensor in gguf.tensors() {
        let ty = tensor.ggml_type();
        let total = by_id.entry(ty.id()).or_insert(TypeTotal {
            type_name: ty.name(),
            tensors: 0,
            params: 0,
            bytes: 0,
        });
        // Tensors do not overlap, so the sums are bounded by the file, times the elements that
        // a byte can hold.
        total.tensors += 1;
        total.params += tensor.n_elems();
        total.bytes += tensor.bytes().len() as u64;
    }
    by_id.into_values().collect()
}
