//! Reading GGUF files, versions 2 and 3.
//!
//! [`Mapping::open`] maps a file, [`Gguf::parse`] reads its header: all metadata and tensor
//! descriptions are checked against the size of the file before anything is handed out, and
//! everything handed out borrows from the mapping. Parsing never touches tensor data.
//!
//! ```no_run
//! use apr::gguf::{Gguf, Mapping};
//! let file = Mapping::open("model.gguf".as_ref())?;
//! let gguf = Gguf::parse(&file)?;
//! let architecture: &str = gguf.require("general.architecture")?;
//! let embedding = gguf.tensor("token_embd.weight");
//! # Ok::<(), apr::gguf::GgufError>(())
//! ```
//!
//! The layout, all little-endian: magic `GGUF`, `u32` version, `u64` tensor count, `u64`
//! metadata count; the metadata (key, type, value); the tensor descriptions (name, dimensions,
//! type, offset); padding to `general.alignment` (32 where absent); the data section.
//! Source: docs/gguf.md of the ggml project.

mod convert;
mod cursor;
mod error;
mod mapping;
mod tensor;
mod types;
mod value;

pub use convert::FromValue;
pub use error::GgufError;
pub use mapping::Mapping;
pub use tensor::Tensor;
pub use types::GgmlType;
pub use value::{Array, ArrayIter, Value, ValueType};

use cursor::Cursor;
use std::collections::HashMap;
use tensor::TensorInfo;

const MAGIC: &[u8; 4] = b"GGUF";
/// Alignment of tensor data where `general.alignment` is absent, in bytes.
const DEFAULT_ALIGNMENT: u32 = 32;
/// Longest metadata key in bytes (the specification's limit).
const MAX_KEY: usize = 65_535;
/// Least bytes a metadata entry takes: key length, one byte of key, type, one byte of value.
const MIN_ENTRY_BYTES: u64 = 8 + 1 + 4 + 1;

/// The header of a GGUF file: metadata and tensor descriptions, borrowed from its bytes.
#[derive(Debug)]
pub struct Gguf<'a> {
    version: u32,
    alignment: u64,
    size: u64,
    data_offset: u64,
    metadata: Vec<(&'a str, Value<'a>)>,
    keys: HashMap<&'a str, usize>,
    tensors: Vec<Tensor<'a>>,
    names: HashMap<&'a str, usize>,
}

impl<'a> Gguf<'a> {
    /// Reads and checks the header in `bytes`, which are the whole file.
    ///
    /// # Errors
    /// Any [`GgufError`] but those of opening a file and of asking for keys. A file whose tensor
    /// data is cut short is refused here.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, GgufError> {
        let mut cursor = Cursor::new(bytes, 0);
        let version = read_version(&mut cursor)?;
        let n_tensors = cursor.u64("the tensor count")?;
        let n_metadata = cursor.u64("the metadata count")?;
        let (metadata, keys) = read_metadata(&mut cursor, n_metadata)?;
        let mut gguf = Self {
            version,
            alignment: 0,
            size: bytes.len() as u64,
            data_offset: 0,
            metadata,
            keys,
            tensors: Vec::new(),
            names: HashMap::new(),
        };
        gguf.alignment = gguf.read_alignment()?;
        gguf.read_tensors(&mut cursor, n_tensors, bytes)?;
        Ok(gguf)
    }

    fn read_alignment(&self) -> Result<u64, GgufError> {
        let found = self.find::<u32>("general.alignment")?;
        let alignment = found.unwrap_or(DEFAULT_ALIGNMENT);
        if !alignment.is_power_of_two() {
            return Err(GgufError::Alignment { alignment });
        }
        Ok(alignment.into())
    }

    fn read_tensors(
        &mut self,
        cursor: &mut Cursor<'a>,
        count: u64,
        bytes: &'a [u8],
    ) -> Result<(), GgufError> {
        let what = || "the tensor count".to_owned();
        cursor.check_count(what, count, tensor::MIN_INFO_BYTES)?;
        let mut infos = Vec::new();
        for index in 0..count {
            let info = TensorInfo::read(cursor, index)?;
            if self.names.insert(info.name(), infos.len()).is_some() {
                return Err(GgufError::DuplicateTensor {
                    name: info.name().to_owned(),
                });
            }
            infos.push(info);
        }
        // A position in memory plus an alignment below 2^32 fits in 64 bits.
        self.data_offset = (cursor.at() as u64).next_multiple_of(self.alignment);
        let start = usize::try_from(self.data_offset).unwrap_or(usize::MAX);
        // A file without tensors may end before its data section would begin.
        let data = bytes.get(start..).unwrap_or(&[]);
        for info in &infos {
            self.tensors.push(info.locate(data, self.alignment)?);
        }
        check_overlap(&self.tensors)
    }

    /// Format version: 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of tensor data in bytes, a power of two.
    pub fn alignment(&self) -> u64 {
        self.alignment
    }

    /// Size of the whole file in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Where the data section starts, in bytes from the start of the file.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }

    /// All metadata, in file order.
    pub fn metadata(&self) -> &[(&'a str, Value<'a>)] {
        &self.metadata
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<Tensor<'a>> {
        self.names.get(name).map(|&i| self.tensors[i])
    }

    /// The value of a metadata key, `None` where the key is absent.
    ///
    /// # Errors
    /// [`GgufError::WrongType`] where the key is there but is no `T`.
    pub fn find<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>, GgufError> {
        let Some(&index) = self.keys.get(key) else {
            return Ok(None);
        };
        let value = self.metadata[index].1;
        match T::from_value(value) {
            Some(value) => Ok(Some(value)),
            None => Err(GgufError::WrongType {
                key: key.to_owned(),
                found: value.describe(),
                expected: T::EXPECTED,
            }),
        }
    }

    /// The value of a metadata key that must be there.
    ///
    /// # Errors
    /// [`GgufError::MissingKey`], [`GgufError::WrongType`].
    pub fn require<T: FromValue<'a>>(&self, key: &str) -> Result<T, GgufError> {
        self.find(key)?.ok_or_else(|| GgufError::MissingKey {
            key: key.to_owned(),
        })
    }
}

fn read_version(cursor: &mut Cursor<'_>) -> Result<u32, GgufError> {
    let magic = cursor.take(cursor.left().min(4), "the magic")?;
    if magic != MAGIC {
        return Err(GgufError::Magic {
            found: magic.to_vec(),
        });
    }
    match cursor.u32("the version")? {
        version @ 2..=3 => Ok(version),
        // A known version with its bytes the other way round.
        swapped if (1..=3).contains(&swapped.swap_bytes()) => Err(GgufError::BigEndian {
            version: swapped.swap_bytes(),
        }),
        version => Err(GgufError::Version { version }),
    }
}

type Entries<'a> = (Vec<(&'a str, Value<'a>)>, HashMap<&'a str, usize>);

fn read_metadata<'a>(cursor: &mut Cursor<'a>, count: u64) -> Result<Entries<'a>, GgufError> {
    let what = || "the metadata count".to_owned();
    cursor.check_count(what, count, MIN_ENTRY_BYTES)?;
    let mut entries = Vec::new();
    let mut keys = HashMap::new();
    for index in 0..count {
        let key = read_key(cursor, index)?;
        let value = Value::read(cursor, key)?;
        if keys.insert(key, entries.len()).is_some() {
            return Err(GgufError::DuplicateKey {
                key: key.to_owned(),
            });
        }
        entries.push((key, value));
    }
    Ok((entries, keys))
}

fn read_key<'a>(cursor: &mut Cursor<'a>, index: u64) -> Result<&'a str, GgufError> {
    let fault = match cursor.string("a metadata key")? {
        [] => "empty",
        key if key.len() > MAX_KEY => "longer than 65535 bytes",
        key => match std::str::from_utf8(key) {
            Ok(key) => return Ok(key),
            Err(_) => "not UTF-8",
        },
    };
    Err(GgufError::Key { index, fault })
}

fn check_overlap(tensors: &[Tensor<'_>]) -> Result<(), GgufError> {
    let mut order: Vec<&Tensor<'_>> = tensors.iter().collect();
    order.sort_by_key(|t| t.offset());
    for pair in order.windows(2) {
        // `locate` checked that offset + size does not overflow.
        if pair[0].offset() + pair[0].bytes().len() as u64 > pair[1].offset() {
            return Err(GgufError::Overlap {
                first: pair[0].name().to_owned(),
                second: pair[1].name().to_owned(),
                offset: pair[1].offset(),
            });
        }
    }
    Ok(())
}
