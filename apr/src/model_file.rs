//! Which model a command works on, and the one that is built in.

use crate::gguf::{Gguf, Mapping};
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The option of every command that runs a model.
#[derive(Clone, Debug, clap::Args)]
pub struct ModelArg {
    /// GGUF file to use [default: a built-in tiny llama with random weights]
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
}

impl ModelArg {
    /// Opens the file, or the built-in model where none is named.
    ///
    /// # Errors
    /// One line with the path and what is wrong.
    pub fn open(&self) -> anyhow::Result<ModelFile> {
        ModelFile::open(self.model.as_deref())
    }
}

/// The bytes of a model and the name to call it by.
#[derive(Debug)]
pub struct ModelFile {
    name: String,
    mapping: Mapping,
}

/// Kernels read numbers straight from these bytes: aligned as in a mapped file.
#[repr(C, align(64))]
struct Aligned<T: ?Sized>(T);

static TINY_LLAMA: &Aligned<[u8]> = &Aligned(*include_bytes!("../models/tiny-llama.gguf"));

impl ModelFile {
    /// Opens the file at `path`, or the built-in model where that is `None`.
    ///
    /// # Errors
    /// One line with the path and what is wrong.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self {
                name: "built-in tiny-llama (random weights)".into(),
                mapping: Mapping::from_static(&TINY_LLAMA.0),
            });
        };
        let name = path.display().to_string();
        let mapping = Mapping::open(path).with_context(|| name.clone())?;
        Ok(Self { name, mapping })
    }

    /// The path as it was given, or what the built-in model is.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.mapping
    }

    /// Runs `body`, while a thread of its own brings the file into memory. For commands that will read
    /// all weights, to be done while the vocabulary is built; what is not there when `body` is done is
    /// left to be read when it is touched.
    pub fn reading_ahead<R>(&self, body: impl FnOnce() -> R) -> R {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let read = || self.mapping.populate(|| done.load(Ordering::Relaxed));
            let thread = thread::Builder::new().name("read ahead".into());
            // Without the thread all is read when it is touched.
            let _ = thread.spawn_scoped(scope, read);
            let result = body();
            done.store(true, Ordering::Relaxed);
            result
        })
    }

    /// Reads the header.
    ///
    /// # Errors
    /// One line with the path and what is wrong.
    pub fn parse(&self) -> anyhow::Result<Gguf<'_>> {
        Gguf::parse(&self.mapping).with_context(|| self.name.clone())
    }
}
