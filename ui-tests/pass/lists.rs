//! `bricks!` with a list, with `cfg`s and documentation, and with what a macro makes on top.

#![deny(warnings, missing_docs)]

use brick_runtime::{brick, bricks};

bricks! {
    ..,
    /// Made by a macro, which no scan can see.
    FromMacro,
    #[cfg(windows)]
    OnWindows,
    #[cfg(not(windows))]
    Elsewhere,
}

macro_rules! kernel {
    ($id:ident, $name:ident) => {
        #[brick(id = $id)]
        fn $name() {}
    };
}

kernel!(FromMacro, from_macro);

#[cfg(windows)]
kernel!(OnWindows, on_windows);

#[brick(id = Elsewhere)]
#[cfg(not(windows))]
fn elsewhere() {}

#[brick(id = Scanned)]
fn scanned() {}

fn main() {
    from_macro();
    elsewhere();
    scanned();
    let names: Vec<&str> = BrickId::ALL.iter().map(|id| id.name()).collect();
    assert_eq!(names, ["FromMacro", "Elsewhere", "Scanned"]);
    assert_eq!("Scanned".parse(), Ok(BrickId::Scanned));
    assert_eq!("scaned".parse::<BrickId>().unwrap_err().nearest, Some("Scanned"));
    assert_eq!(format!("{:>10}", BrickId::Scanned), "   Scanned");
}
