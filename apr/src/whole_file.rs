//! Files that are there as a whole or not at all: written beside, then renamed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file that is there as a whole or not at all.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = Temporary::beside(path, "part");
    let file = File::create(&temporary.0)?;
    let mut out = BufWriter::new(&file);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    fs::rename(&temporary.0, path)
}

/// Whether a file can be made at `path`: asked before a run rather than after it.
pub(crate) fn probe(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let temporary = Temporary::beside(path, "probe");
    File::create(&temporary.0).map(drop)
}

/// A file that is removed if it is still there when this is dropped.
#[derive(Debug)]
pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    /// A name in the same folder that no other process takes.
    pub(crate) fn beside(path: &Path, what: &str) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let process = std::process::id();
        Self(path.with_file_name(format!(".{name}.{process}.{what}")))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Not there any more after a rename.
        let _ = fs::remove_file(&self.0);
    }
}
