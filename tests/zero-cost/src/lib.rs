//! Builds the fixture `tests/fixtures/zero-cost` in its variants, and makes assembly comparable.

use std::path::{Path, PathBuf};
use std::process::Command;

/// How the fixture is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Without the attributes.
    Bare,
    /// With them, `visualization` off.
    Off,
    /// With them, `visualization` on.
    On,
}

/// What is built of it.
#[derive(Clone, Copy, Debug)]
pub enum Product {
    /// The library's assembly.
    Assembly,
    /// The program.
    Binary,
}

/// Builds the fixture below `target` (its own directory per variant, so that none replaces
/// another) and returns the product's path.
///
/// # Panics
/// Where cargo fails or the product is not there.
#[must_use]
pub fn build(target: &Path, variant: Variant, release: bool, product: Product) -> PathBuf {
    let target = target.join(format!("{variant:?}").to_lowercase());
    let profile = if release { "release" } else { "debug" };
    let out = target.join(profile);
    let mut cargo = cargo();
    cargo
        .args(["rustc", "--quiet", "--target-dir"])
        .arg(&target)
        // What is inherited from the outer cargo must not tell variants apart.
        .env_remove("RUSTFLAGS")
        .env("CARGO_INCREMENTAL", "0");
    if release {
        cargo.arg("--release");
    }
    if variant == Variant::On {
        cargo.args(["--features", "on"]);
    }
    let file = match product {
        Product::Assembly => out.join("under_test.s"),
        Product::Binary => out.join("under-test"),
    };
    match product {
        Product::Assembly => cargo
            .args(["--lib", "--"])
            .arg(format!("--emit=asm={}", file.display())),
        Product::Binary => cargo.args(["--bin", "under-test", "--"]),
    };
    cargo.args(["-C", "codegen-units=1", "-C", "debuginfo=0"]);
    match (variant, product) {
        (Variant::Bare, _) => {}
        // Flags in the environment are part of every symbol's hash, and so of the functions'
        // order; arguments are not.
        (_, Product::Assembly) => {
            cargo.args(["--cfg", "attributed"]);
        }
        // For the library below the program too, which arguments do not reach.
        (_, Product::Binary) => {
            cargo.env("RUSTFLAGS", "--cfg=attributed");
        }
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "{cargo:?} failed: {status}");
    assert!(file.is_file(), "{} was not built", file.display());
    file
}

/// `cargo` in the fixture's directory, with the workspace's versions of all dependencies.
///
/// # Panics
/// Where the lock file cannot be copied.
#[must_use]
pub fn cargo() -> Command {
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/zero-cost");
    let lock = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock");
    std::fs::copy(lock, format!("{fixture}/Cargo.lock")).expect("the workspace has a lock file");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(fixture);
    cargo
}

/// The functions and data of an assembly file, each as its lines, in an order of their own.
///
/// What differs between two builds of the same code is left out: the hashes in symbols and
/// crates, file names, and the numbers of local labels. The order is lost on purpose: it follows
/// the hashes, and a type-checked but never built closure gives those behind it other ones.
#[must_use]
pub fn sections(assembly: &str) -> Vec<Vec<String>> {
    let mut sections = vec![Vec::new()];
    for line in assembly.lines() {
        let line = line.trim();
        if line.starts_with(".file") || line.starts_with(".ident") {
            continue;
        }
        if line.starts_with(".section") {
            sections.push(Vec::new());
        }
        sections
            .last_mut()
            .expect("never empty")
            .push(normalised(line));
    }
    sections.sort();
    sections
}

/// A line without hashes and the numbers of labels.
#[must_use]
pub fn normalised(line: &str) -> String {
    let mut line = without(
        &without(&without(line, "17h", 16, hex), "Cs", 8, alphanumeric),
        ".Lanon.",
        32,
        hex,
    );
    for label in [
        ".Lanon..",
        ".LBB",
        ".LJTI",
        ".LCPI",
        ".Ltmp",
        ".Lfunc_begin",
        ".Lfunc_end",
        ".Lcst_begin",
        ".Lcst_end",
        ".Lexception",
        ".Lttbase",
        "GCC_except_table",
        ".Lswitch.table.",
    ] {
        line = without(&line, label, 1, |byte| byte.is_ascii_digit());
    }
    line
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// The line with `prefix` alone wherever it is followed by at least `least` bytes of a class.
fn without(line: &str, prefix: &str, least: usize, class: fn(u8) -> bool) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(prefix) {
        let (before, after) = rest.split_at(at + prefix.len());
        let run = after.bytes().take_while(|&byte| class(byte)).count();
        kept.push_str(before);
        rest = if run >= least { &after[run..] } else { after };
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::sections;

    #[test]
    fn hashes_go_and_code_stays() {
        let a = "\tcallq\t_ZN4core9panicking5panic17h0123456789abcdefE@PLT\n\t.file\t\"a\"\n\tmovl\t$17, %eax";
        let b = "\tcallq\t_ZN4core9panicking5panic17hfedcba9876543210E@PLT\n\tmovl\t$17, %eax";
        assert_eq!(sections(a), sections(b));
        assert_ne!(
            sections(a),
            sections(
                "\tcallq\t_ZN4core9panicking6unwrap17h0123456789abcdefE@PLT\n\tmovl\t$17, %eax"
            )
        );
        assert_ne!(sections(a), sections(&b.replace("$17", "$18")));
    }
}
