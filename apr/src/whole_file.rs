//! Files that are there as a whole or not at all: written beside, then renamed.
//!
//! What is no regular file (a pipe, `/dev/stdout`) is written to as it is: nothing may take its place.
//! A link stays one; what it points to is replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file that is there as a whole or not at all.
pub(crate) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    if is_special(path) {
        return fill(&special(path)?, write);
    }
    let place = place(path);
    let temporary = Temporary::beside(&place, "part");
    fill(&File::create(&temporary.0)?, write)?;
    fs::rename(&temporary.0, place)
}

fn fill(
    file: &File,
    write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    write(&mut out)?;
    out.flush()
}

/// Whether there is something other than a file.
pub(crate) fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file())
}

fn special(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Where the file is, through links.
fn place(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether a file can be made at `path`: asked before a run rather than after it.
pub(crate) fn probe(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if is_special(path) {
        return special(path).map(drop);
    }
    let temporary = Temporary::beside(&place(path), "probe");
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

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
        write_whole(path, |out| out.write_all(bytes))
    }

    #[test]
    fn complete_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        put(&path, b"old").unwrap();
        let failed = write_whole(&path, |out| {
            out.write_all(b"half")?;
            Err(io::ErrorKind::Other.into())
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        put(&path, b"whole").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        for wrong in [
            dir.path().to_owned(),
            dir.path().join("no/where"),
            "/".into(),
        ] {
            assert!(probe(&wrong).is_err(), "{}", wrong.display());
        }
    }

    /// A link stays a link, and a device a device.
    #[test]
    #[cfg(unix)]
    fn what_is_no_regular_file_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let [link, target, null] = ["link", "target", "null"].map(|name| dir.path().join(name));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        std::os::unix::fs::symlink("/dev/null", &null).unwrap();
        for path in [&link, &null] {
            probe(path).unwrap();
            put(path, b"new").unwrap();
            assert!(fs::symlink_metadata(path).unwrap().is_symlink());
        }
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
    }
}
