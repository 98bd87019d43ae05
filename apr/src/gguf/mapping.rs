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
        advise_huge_pages(&map);
        Ok(Self(Bytes::Map(map)))
    }

    /// Brings the pages of the file into memory, from its beginning, until `stop` says so; where the
    /// system can't, it does nothing. For those who will read all of it: to ask for many pages at once
    /// costs less than half of what touching them costs.
    pub fn populate(&self, stop: impl Fn() -> bool) {
        if let Bytes::Map(map) = &self.0 {
            populate(map, stop);
        }
    }

    /// Bytes that live as long as the program, such as an embedded model.
    pub fn from_static(bytes: &'static [u8]) -> Self {
        Self(Bytes::Static(bytes))
    }
}

/// Asks for pages of 2 MiB. A file system with large folios (ext4 from Linux 6.16, XFS) then reads a
/// file that is not in the page cache in such pieces, and maps them as such, now and in every later
/// process. That is an optimisation only: systems that know no such advice refuse it.
#[cfg(target_os = "linux")]
fn advise_huge_pages(map: &Mmap) {
    let _ = map.advise(memmap2::Advice::HugePage);
}

#[cfg(not(target_os = "linux"))]
fn advise_huge_pages(_: &Mmap) {}

/// Ends at the first refusal: Linux before 5.14 knows no such advice, and of a file that shrank there
/// is nothing more to bring in.
#[cfg(target_os = "linux")]
fn populate(map: &Mmap, stop: impl Fn() -> bool) {
    /// How much has to be waited for after `stop`: some milliseconds from a disk.
    const PIECE: usize = 16 << 20;
    for start in (0..map.len()).step_by(PIECE) {
        let len = PIECE.min(map.len() - start);
        let advised = || map.advise_range(memmap2::Advice::PopulateRead, start, len);
        if stop() || advised().is_err() {
            return;
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn populate(_: &Mmap, _: impl Fn() -> bool) {}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Map(map) => map,
            Bytes::Static(bytes) => bytes,
        }
    }
}
