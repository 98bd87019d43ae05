//! A file that is complete or absent.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is being written beside its place. Dropped before it is complete, it is removed.
#[derive(Debug)]
pub struct Pending {
    path: PathBuf,
    beside: PathBuf,
    out: BufWriter<File>,
    complete: bool,
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
        let Some(name) = path.file_name() else {
            bail!("{}: it names no file", told());
        };
        let mut beside = name.to_owned();
        beside.push(format!(".{}.part", std::process::id()));
        let beside = path.with_file_name(beside);
        let file = File::create_new(&beside).with_context(told)?;
        Ok(Pending {
            path: path.to_owned(),
            beside,
            out: BufWriter::new(file),
            complete: false,
        })
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
        fs::rename(&self.beside, &self.path).with_context(told)?;
        self.complete = true;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.complete {
            // Whatever stopped the run is told; that a part of a file is left behind is not worth
            // another line.
            let _ = fs::remove_file(&self.beside);
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
}
