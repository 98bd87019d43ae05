//! Where the bytes of a model come from.

use super::GgufError;
use memmap2::Mmap;
use std::fs::{self, File};
use std::ops::Deref;
use std::path::Path;

/// The bytes of a model: a memory-mapped file, or bytes that are part of the program.
///
/// Pages are read when they are touched, so opening costs the same for any size.
#[derive(Debug)]
pub struct Mapping(Bytes);

#[derive(Debug)]
enum Bytes {
    Map(Mmap),
    Static(&'static [u8]),
}

impl Mapping {
    /// Maps the file at `path`, read-only.
    ///
    /// The file must not shrink while it is mapped: the operating system then ends the process
    /// with SIGBUS, here as in every program that maps its model.
    ///
    /// # Errors
    /// [`GgufError::Io`], [`GgufError::Directory`], [`GgufError::NotRegular`].
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        // Asked before opening, because opening a pipe would wait for its writer.
        let kind = fs::metadata(path)?.file_type();
        if kind.is_dir() {
            return Err(GgufError::Directory);
        }
        if !kind.is_file() {
            return Err(GgufError::NotRegular);
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is read-only and `is_file` was checked. What no check can rule out
        // is another process changing the file meanwhile; parsed offsets were checked against
        // the mapped length, which never changes, so every access stays inside the mapping.
        let map = unsafe { Mmap::map(&file) }?;
        Ok(Self(Bytes::Map(map)))
    }

    /// Bytes that live as long as the program, such as an embedded model.
    pub fn from_static(bytes: &'static [u8]) -> Self {
        Self(Bytes::Static(bytes))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Map(map) => map,
            Bytes::Static(bytes) => bytes,
        }
    }
}
