//! The values of all traced tensors: in the trace itself while they are few, else as one `.safetensors`
//! file beside it.

use super::collect::Measured;
use crate::whole_file::{Temporary, is_special, write_whole};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Bytes of values that a file gets at most; tensors after that are dropped and counted.
pub(super) const MAX_BYTES: u64 = 4 << 30;
/// Bytes of values up to which they are in the trace itself, where some 12 characters are a number.
/// Where there can be no file beside it, tensors after that are dropped and counted.
pub(super) const INLINE_BYTES: u64 = 64 << 10;

/// Where the values are.
#[derive(Clone, Debug, serde::Serialize)]
pub struct PayloadPlace {
    /// The file's name, which lies beside the trace; null where they are in the trace itself.
    pub file: Option<String>,
    /// Tensors whose values there are.
    pub tensors: usize,
    /// Bytes of values, four for each.
    pub bytes: u64,
}

/// Values on their way.
#[derive(Debug)]
pub(super) struct Payload {
    store: Store,
    places: HashMap<String, Place>,
    bytes: u64,
}

#[derive(Debug)]
enum Store {
    /// A temporary file, as the header before the values can only be written when all are known.
    File {
        path: PathBuf,
        data: Temporary,
        out: BufWriter<File>,
    },
    /// Where no file can lie beside the trace.
    Memory(Vec<u8>),
}

#[derive(Clone, Debug)]
struct Place {
    shape: [usize; 2],
    /// In bytes.
    at: Range<u64>,
}

/// All values, when no more come.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) place: PayloadPlace,
    /// Those that are in the trace itself.
    pub(super) inline: Option<Inline>,
}

/// Values that are in the trace itself.
#[derive(Debug)]
pub(super) struct Inline {
    bytes: Vec<u8>,
    places: HashMap<String, Place>,
}

impl Payload {
    /// For the values that belong to the trace at `output`. A file would have the same name, ending in
    /// `.safetensors`; beside a pipe or a terminal there is none.
    pub(super) fn beside(output: &Path) -> io::Result<Self> {
        let store = match is_special(output) {
            true => Store::Memory(Vec::new()),
            false => Store::file(output.with_extension("safetensors"))?,
        };
        Ok(Self {
            store,
            places: HashMap::new(),
            bytes: 0,
        })
    }

    /// Writes one tensor; `false` if there is no room for it.
    pub(super) fn write(&mut self, measured: &Measured, values: &[f32]) -> io::Result<bool> {
        let bytes = bytemuck::cast_slice::<f32, u8>(values);
        let end = self.bytes + bytes.len() as u64;
        // The format is little-endian, as is every machine that this runs on today.
        const { assert!(cfg!(target_endian = "little")) };
        match &mut self.store {
            Store::File { out, .. } if end <= MAX_BYTES => out.write_all(bytes)?,
            Store::Memory(held) if end <= INLINE_BYTES => held.extend_from_slice(bytes),
            _ => return Ok(false),
        }
        let place = Place {
            shape: measured.shape,
            at: self.bytes..end,
        };
        self.places.insert(measured.value_name(), place);
        self.bytes = end;
        Ok(true)
    }

    /// Few values stay for the trace; more go under the final name, behind their header.
    pub(super) fn finish(self) -> io::Result<Finished> {
        let Self {
            store,
            places,
            bytes,
        } = self;
        let place = |file| PayloadPlace {
            file,
            tensors: places.len(),
            bytes,
        };
        let held = match store {
            Store::Memory(held) => held,
            Store::File { path, data, out } => {
                let mut values = out.into_inner().map_err(|error| error.into_error())?;
                values.rewind()?;
                if bytes > INLINE_BYTES {
                    write_file(&path, &places, values.take(bytes))?;
                    let file = path.file_name().unwrap_or_default();
                    return Ok(Finished {
                        place: place(Some(file.to_string_lossy().into_owned())),
                        inline: None,
                    });
                }
                let mut held = Vec::new();
                values.read_to_end(&mut held)?;
                drop(data);
                held
            }
        };
        Ok(Finished {
            place: place(None),
            inline: Some(Inline {
                bytes: held,
                places,
            }),
        })
    }
}

impl Store {
    fn file(path: PathBuf) -> io::Result<Self> {
        let data = Temporary::beside(&path, "values");
        let out = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&data.0)?;
        let out = BufWriter::new(out);
        Ok(Self::File { path, data, out })
    }
}

/// Header and values together, as the format has them
/// (<https://huggingface.co/docs/safetensors/index#format>).
fn write_file(
    path: &Path,
    places: &HashMap<String, Place>,
    mut values: impl Read,
) -> io::Result<()> {
    let entry = |(name, place): (&String, &Place)| {
        let place = serde_json::json!({
            "dtype": "F32",
            "shape": place.shape,
            "data_offsets": [place.at.start, place.at.end],
        });
        (name.clone(), place)
    };
    let header: serde_json::Map<_, _> = places.iter().map(entry).collect();
    let mut header = serde_json::to_vec(&header)?;
    // Values start at a multiple of 8: the format's advice for mapped files.
    header.resize(header.len().next_multiple_of(8), b' ');
    write_whole(path, |out| {
        out.write_all(&(header.len() as u64).to_le_bytes())?;
        out.write_all(&header)?;
        io::copy(&mut values, out).map(drop)
    })
}

impl Inline {
    /// The values of one tensor; `None` if they were dropped.
    pub(super) fn get(&self, name: &str) -> Option<Numbers<'_>> {
        let Range { start, end } = self.places.get(name)?.at.clone();
        // They were held in memory: the places fit.
        let values = self.bytes.get(start as usize..end as usize)?;
        let (values, _) = values.as_chunks();
        Some(Numbers(values))
    }
}

/// Numbers of four bytes for JSON, which has no word for those that are not finite: `"NaN"`, `"inf"`
/// and `"-inf"` are texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers<'a>(&'a [[u8; 4]]);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for &bytes in self.0 {
            let value = f32::from_le_bytes(bytes);
            match value.is_finite() {
                true => list.serialize_element(&value)?,
                false => list.serialize_element(&value.to_string())?,
            }
        }
        list.end()
    }
}

/// `pass0.layer3.q`, `pass0.logits`.
pub(super) fn name(pass: usize, layer: Option<usize>, node: &str) -> String {
    match layer {
        Some(layer) => format!("pass{pass}.layer{layer}.{node}"),
        None => format!("pass{pass}.{node}"),
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;

    #[test]
    fn a_number_that_is_not_finite_is_a_text() {
        let values = [0.1f32, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0];
        let bytes = values.map(f32::to_le_bytes);
        let json = serde_json::to_string(&Numbers(&bytes)).unwrap();
        assert_eq!(json, r#"[0.1,"NaN","inf","-inf",-0.0]"#);
    }
}
