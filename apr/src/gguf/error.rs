//! What can be wrong with a GGUF file.

use brick_kernels::KernelError;
use brick_kernels::quant::Format;
use std::io;

/// Why a file cannot be read as GGUF, or why a metadata key cannot be used.
///
/// Every variant names the thing at fault and its value; the message is one line.
/// The path of the file is not part of it: whoever opened the file adds that. What lies beneath
/// is part of the message, so none has a [`source`](std::error::Error::source) to repeat it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The operating system refused to open or map the file.
    #[error("cannot open: {0}")]
    Io(io::Error),
    /// The path names a directory.
    #[error("is a directory, not a GGUF file")]
    Directory,
    /// The path names a pipe, socket or device, which cannot be memory-mapped.
    #[error("is not a regular file, so it cannot be memory-mapped")]
    NotRegular,
    /// The first four bytes are not `GGUF`.
    #[error("not a GGUF file: starts with {found:02x?}, not \"GGUF\"")]
    Magic {
        /// The bytes found instead (fewer than four in a shorter file).
        found: Vec<u8>,
    },
    /// The version field is byte-swapped.
    #[error("big-endian GGUF (version {version}) is not supported; convert it to little-endian")]
    BigEndian {
        /// The version, read in the file's own byte order.
        version: u32,
    },
    /// A version whose layout this reader does not know.
    #[error("GGUF version {version} is not supported; versions 2 and 3 are")]
    Version {
        /// The version found.
        version: u32,
    },
    /// The file ends before something it announced.
    #[error("file is truncated: {what} at byte {at} needs {need} bytes, {have} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Byte offset from the start of the file.
        at: u64,
        /// Bytes it needs.
        need: u64,
        /// Bytes left in the file from `at`.
        have: u64,
    },
    /// A count that could not be true of a file of this size.
    #[error(
        "{what} is {count}, which cannot fit: at least {min_bytes} bytes each, {have} bytes are left"
    )]
    Count {
        /// What is counted.
        what: String,
        /// The count found.
        count: u64,
        /// Bytes one item takes at least.
        min_bytes: u64,
        /// Bytes left in the file.
        have: u64,
    },
    /// A metadata key that is empty, too long or not UTF-8.
    #[error("metadata key {index} is {fault}")]
    Key {
        /// Position of the entry in the file, from 0.
        index: u64,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The same metadata key twice.
    #[error("metadata key {key:?} appears twice")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A metadata value type outside the specification.
    #[error("metadata key {key:?} has unknown value type {id}")]
    ValueType {
        /// The key.
        key: String,
        /// The type id found.
        id: u32,
    },
    /// An array of arrays: allowed on paper, written by nothing, and a stack overflow to read.
    #[error("metadata key {key:?} is an array of arrays, which is not supported")]
    NestedArray {
        /// The key.
        key: String,
    },
    /// A boolean that is neither 0 nor 1.
    #[error("metadata key {key:?} is a boolean with value {value}")]
    Bool {
        /// The key.
        key: String,
        /// The byte found.
        value: u8,
    },
    /// A key the caller cannot do without.
    #[error("metadata key {key:?} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A value that is not of the type, or not in the range, that the caller needs.
    #[error("metadata key {key:?} is {found}, expected {expected}")]
    WrongType {
        /// The key.
        key: String,
        /// Type, and where it helps the value, found in the file.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// `general.alignment` is not a power of two.
    #[error("general.alignment is {alignment}, which is not a power of two")]
    Alignment {
        /// The value found.
        alignment: u32,
    },
    /// A tensor name that is empty, too long or not UTF-8.
    #[error("tensor {index} has a name that is {fault}")]
    TensorName {
        /// Position of the tensor in the file, from 0.
        index: u64,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The same tensor name twice.
    #[error("tensor {name:?} appears twice")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// A dimension count outside 1..=4.
    #[error("tensor {name:?} has {n_dims} dimensions, 1 to 4 are possible")]
    DimCount {
        /// The tensor.
        name: String,
        /// The count found.
        n_dims: u32,
    },
    /// A dimension of zero.
    #[error("tensor {name:?} has dimensions {dims:?}: none may be 0")]
    ZeroDim {
        /// The tensor.
        name: String,
        /// Its dimensions.
        dims: Vec<u64>,
    },
    /// Dimensions whose product, in elements or bytes, does not fit in 64 bits.
    #[error("tensor {name:?} has dimensions {dims:?}, whose size overflows 64 bits")]
    SizeOverflow {
        /// The tensor.
        name: String,
        /// Its dimensions.
        dims: Vec<u64>,
    },
    /// A tensor type id that names no ggml type.
    #[error("tensor {name:?} has unknown type {id}")]
    TensorType {
        /// The tensor.
        name: String,
        /// The id found.
        id: u32,
    },
    /// Rows that are not a whole number of blocks.
    #[error(
        "tensor {name:?}: rows of {row} elements are not whole blocks of {ty} ({block} elements)"
    )]
    PartialBlock {
        /// The tensor.
        name: String,
        /// First dimension, in elements.
        row: u64,
        /// Name of its type.
        ty: &'static str,
        /// Elements per block of that type.
        block: u64,
    },
    /// A tensor offset that is not a multiple of the alignment.
    #[error(
        "tensor {name:?} starts at data offset {offset}, not a multiple of the alignment {alignment}"
    )]
    Misaligned {
        /// The tensor.
        name: String,
        /// Its offset in the data section, in bytes.
        offset: u64,
        /// The file's alignment, in bytes.
        alignment: u64,
    },
    /// A tensor that ends after the file does.
    #[error(
        "tensor {name:?} ({size} bytes at data offset {offset}) reaches past the end of the file: \
         the data section has {have} bytes (truncated file?)"
    )]
    PastEnd {
        /// The tensor.
        name: String,
        /// Its offset in the data section, in bytes.
        offset: u64,
        /// Its size in bytes.
        size: u64,
        /// Bytes of the data section that the file has.
        have: u64,
    },
    /// A tensor whose type no kernel can compute with. Told when it is used, not when it is read.
    #[error("tensor {name:?} is {ty}, which no kernel can compute with; {known} can be", known = kernel_formats())]
    NoKernel {
        /// The tensor.
        name: String,
        /// Name of its type.
        ty: &'static str,
    },
    /// A tensor that the kernels refuse as a matrix.
    #[error("tensor {name:?}: {why}")]
    Matrix {
        /// The tensor.
        name: String,
        /// What they say.
        why: KernelError,
    },
    /// Two tensors that share bytes.
    #[error("tensors {first:?} and {second:?} overlap at data offset {offset}")]
    Overlap {
        /// The one that starts first.
        first: String,
        /// The one that starts inside it.
        second: String,
        /// Where the second starts in the data section, in bytes.
        offset: u64,
    },
}

impl From<io::Error> for GgufError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The names of the formats that kernels can compute with.
fn kernel_formats() -> String {
    Format::ALL.map(Format::name).join(", ")
}
