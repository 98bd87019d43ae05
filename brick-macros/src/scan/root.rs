//! The file that `bricks!` stands in.

use std::env;
use std::path::{Path, PathBuf};

use proc_macro2::Span;

/// Where the invocation is: the compiler's word, else what Cargo's layout makes of the crate.
pub(crate) fn file() -> Option<PathBuf> {
    Span::call_site().unwrap().local_file().or_else(by_layout)
}

/// rust-analyzer runs macros without telling them where they stand (its command line does; an
/// editor's session may). An IDE that knows no id would mark each of them as an error.
fn by_layout() -> Option<PathBuf> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    let name = env::var("CARGO_CRATE_NAME").ok()?;
    let named = ["src/bin", "examples", "tests", "benches"].map(|dir| package.join(dir));
    let roots = ["src/lib.rs", "src/main.rs", "build.rs"].map(|file| package.join(file));
    let mut candidates = named
        .iter()
        .flat_map(|dir| {
            [
                dir.join(format!("{name}.rs")),
                dir.join(&name).join("main.rs"),
            ]
        })
        .chain(roots);
    candidates.find(|file| holds_bricks(file))
}

fn holds_bricks(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|source| source.contains("bricks!"))
}
