//! A file that is complete or absent.

use anyhow::{Context, Result, bail};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is being written beside its place. Dropped before it is complete, it is removed.
///
/// What is no regular file (a pipe, `/dev/stdout`) is written to as it is: it can't be put in place.
#[derive(Debug)]
pub struct Pending {
    /// As it was named.
    path: PathBuf,
    out: BufWriter<File>,
    /// Where it is written, and its place, while it is not there.
    to_move: Option<(PathBuf, PathBuf)>,
}

impl Pending {
    /// Begins a file at `path`. What stands there stays until this one is complete.
    ///
    /// # Errors
    /// If nothing can be written there.
    pub fn create(path: &Path) -> Result<Pending> {
        let told = || format!("cannot write {}", path.display());
        if path.is_dir() {
            bail!("{}: it is a directory", told());
        }
        let pending = |file, to_move| Pending {
            path: path.to_owned(),
            out: BufWriter::new(file),
            to_move,
        };
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            let device = OpenOptions::new().write(true).open(path);
            return Ok(pending(device.with_context(told)?, None));
        }
        // A link stays one: what it points to is replaced.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let Some(name) = place.file_name() else {
            bail!("{}: it names no file", told());
        };
        let mut beside = name.to_owned();
        beside.push(format!(".{}.part", std::process::id()));
        let beside = place.with_file_name(beside);
        let file = File::create_new(&beside).with_context(told)?;
        Ok(pending(file, Some((beside, place))))
    }

    /// Its place.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where to write to.
    pub fn out(&mut self) -> &mut impl Write {
        &mut self.out
    }

    /// Puts it in its place.
    ///
    /// # Errors
    /// If the rest can't be written, or not moved there.
    pub fn complete(mut self) -> Result<()> {
        let told = || format!("cannot write {}", self.path.display());
        self.out.flush().with_context(told)?;
        if let Some((beside, place)) = &self.to_move {
            fs::rename(beside, place).with_context(told)?;
        }
        self.to_move = None;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some((beside, _)) = &self.to_move {
            // Whatever stopped the run is told; that a part of a file is left behind is not worth
            // another line.
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, "old").unwrap();
        let mut file = Pending::create(&path).unwrap();
        file.out().write_all(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let mut file = Pending::create(&path).unwrap();
        file.out().write_all(b"whole").unwrap();
        file.complete().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
        for wrong in [
            dir.path().to_owned(),
            dir.path().join("no/where"),
            "/".into(),
        ] {
            assert!(Pending::create(&wrong).is_err(), "{}", wrong.display());
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
            let mut file = Pending::create(path).unwrap();
            file.out().write_all(b"new").unwrap();
            file.complete().unwrap();
            assert!(fs::symlink_metadata(path).unwrap().is_symlink());
        }
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3);
    }
}
