//! Reading back the values that lie beside a trace.

use crate::gguf::Mapping;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;

/// Bytes of the header's length, which comes first.
const LENGTH: usize = 8;

/// A `.safetensors` file of f32 tensors.
#[derive(Debug)]
pub(super) struct Values {
    mapping: Mapping,
    /// Where the values start.
    data: usize,
    places: HashMap<String, Place>,
}

#[derive(Debug, Deserialize)]
struct Place {
    dtype: String,
    data_offsets: [usize; 2],
}

impl Values {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    /// If it can't be read, or is no such file.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let mapping = Mapping::open(path).with_context(name)?;
        let header = |bytes: &[u8]| -> Option<(usize, HashMap<String, Place>)> {
            let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
            let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
            let places = serde_json::from_slice(rest.get(..length)?).ok()?;
            Some((LENGTH + length, places))
        };
        let (data, places) = header(&mapping)
            .with_context(|| format!("{} is no safetensors file of a trace", name()))?;
        Ok(Self {
            mapping,
            data,
            places,
        })
    }

    /// The values of one tensor; `None` if they are not there.
    pub(super) fn get<'a>(&'a self, name: &str) -> Option<impl Iterator<Item = f32> + use<'a>> {
        let place = self.places.get(name).filter(|p| p.dtype == "F32")?;
        let [begin, end] = place.data_offsets;
        let (values, rest) = self
            .mapping
            .get(self.data..)?
            .get(begin..end)?
            .as_chunks::<4>();
        let whole = rest.is_empty();
        whole.then(|| values.iter().map(|&bytes| f32::from_le_bytes(bytes)))
    }
}
