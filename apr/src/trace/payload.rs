//! The values of all traced tensors, as one `.safetensors` file.

use super::collect::Measured;
use crate::whole_file::{Temporary, write_whole};
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Bytes of values that are written at most; tensors after that are dropped and counted.
pub(super) const MAX_BYTES: u64 = 4 << 30;

/// What was written.
#[derive(Clone, Debug, Serialize)]
pub struct PayloadFile {
    /// The file's name; it lies beside the trace.
    pub file: String,
    /// Its tensors.
    pub tensors: usize,
    /// Bytes of values.
    pub bytes: u64,
}

/// Values on their way to the file. They go to a temporary file, as the header before them can only
/// be written when all are known.
#[derive(Debug)]
pub(super) struct Payload {
    path: PathBuf,
    data: Temporary,
    out: BufWriter<File>,
    /// Names with their shapes and places.
    header: serde_json::Map<String, serde_json::Value>,
    bytes: u64,
}

impl Payload {
    /// For the values that belong to the trace at `output`: the same name, ending in
    /// `.safetensors`.
    pub(super) fn beside(output: &Path) -> io::Result<Self> {
        let path = output.with_extension("safetensors");
        let data = Temporary::beside(&path, "values");
        let out = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&data.0)?;
        Ok(Self {
            path,
            data,
            out: BufWriter::new(out),
            header: serde_json::Map::new(),
            bytes: 0,
        })
    }

    /// Writes one tensor; `false` if there is no room for it.
    pub(super) fn write(&mut self, measured: &Measured, values: &[f32]) -> io::Result<bool> {
        let bytes = bytemuck::cast_slice::<f32, u8>(values);
        let end = self.bytes + bytes.len() as u64;
        if end > MAX_BYTES {
            return Ok(false);
        }
        // The format is little-endian, as is every machine that this runs on today.
        const { assert!(cfg!(target_endian = "little")) };
        self.out.write_all(bytes)?;
        let place = serde_json::json!({
            "dtype": "F32",
            "shape": measured.shape,
            "data_offsets": [self.bytes, end],
        });
        let Measured {
            pass, layer, node, ..
        } = *measured;
        self.header.insert(name(pass, layer, node.name()), place);
        self.bytes = end;
        Ok(true)
    }

    /// Puts header and values together under the final name.
    pub(super) fn finish(self) -> io::Result<PayloadFile> {
        let mut data = self.out.into_inner().map_err(|error| error.into_error())?;
        data.rewind()?;
        let mut header = serde_json::to_vec(&self.header)?;
        // Values start at a multiple of 8: the format's advice for mapped files.
        header.resize(header.len().next_multiple_of(8), b' ');
        write_whole(&self.path, |out| {
            out.write_all(&(header.len() as u64).to_le_bytes())?;
            out.write_all(&header)?;
            let copied = io::copy(&mut (&mut data).take(self.bytes), out)?;
            debug_assert_eq!(copied, self.bytes);
            Ok(())
        })?;
        drop(self.data);
        let file = self.path.file_name().unwrap_or_default();
        Ok(PayloadFile {
            file: file.to_string_lossy().into_owned(),
            tensors: self.header.len(),
            bytes: self.bytes,
        })
    }
}

/// `pass0.layer3.q`, `pass0.logits`.
pub(super) fn name(pass: usize, layer: Option<usize>, node: &str) -> String {
    match layer {
        Some(layer) => format!("pass{pass}.layer{layer}.{node}"),
        None => format!("pass{pass}.{node}"),
    }
}
