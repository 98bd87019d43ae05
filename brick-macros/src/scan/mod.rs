//! Finds a crate's bricks by following its module tree from the file `bricks!` stands in.
//!
//! A lexer, not a parser: one syntax error in a body must not cost a file its ids (rustc will
//! report the error; a lost id would bury it under a hundred others), and most of the time of
//! a parse would go into bodies. What macros make or `include!` brings is not seen.

mod attrs;
mod cfg;
mod lexer;
mod modules;
mod root;

pub(crate) use cfg::Cfg;
pub(crate) use root::file;

use std::path::{Path, PathBuf};

/// What the files of a crate hold.
#[derive(Default)]
pub(crate) struct Found {
    /// Ids in the order of first sight.
    pub(crate) bricks: Vec<(String, Cfg)>,
    pub(crate) invocations: Vec<Invocation>,
}

/// Where a `bricks!` stands.
pub(crate) struct Invocation {
    pub(crate) file: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
    /// At the top of its file, in no module or block.
    pub(crate) at_top: bool,
}

impl Found {
    fn add(&mut self, id: String, cfgs: Vec<String>) {
        match self.bricks.iter_mut().find(|(known, _)| *known == id) {
            Some((_, cfg)) => cfg.or(cfgs),
            None => self.bricks.push((id, Cfg::all(cfgs))),
        }
    }
}

/// Scans the crate whose root file is `root`.
///
/// # Errors
/// Where `root` cannot be read; submodules that cannot are rustc's to report.
pub(crate) fn scan(root: &Path) -> std::io::Result<Found> {
    let text = std::fs::read_to_string(root)?;
    let mut found = Found::default();
    modules::root(root, &text, &mut found);
    Ok(found)
}
