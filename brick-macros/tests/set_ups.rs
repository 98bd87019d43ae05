//! Whole packages that use `#[brick]`, each tested with `visualization` off and on: the crates of
//! `tests/fixtures/`, which are in no workspace, as a user's are.

use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/fixtures")
        .join(name)
}

/// `cargo` in a package, with the workspace's versions, offline.
fn cargo(package: &Path) -> Command {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
    std::fs::copy(lock, package.join("Cargo.lock")).expect("the workspace has a lock file");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(package)
        .env("CARGO_TARGET_DIR", target())
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTDOCFLAGS");
    cargo
}

fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("set-ups")
}

#[track_caller]
fn run(cargo: &mut Command) -> String {
    let output = cargo.output().expect("cargo starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{cargo:?}:\n{}\n{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// `cargo test`, off and on.
#[track_caller]
fn test(name: &str, features: &[&str]) {
    for on in ["", "on"] {
        let features = [features, &[on]].concat().join(",");
        let output = run(cargo(&fixture(name)).args([
            "test",
            "--offline",
            "--quiet",
            "--all-targets",
            "--features",
            &features,
        ]));
        assert!(output.contains("1 passed"), "{name} ran no test: {output}");
    }
}

#[test]
fn every_target_and_module_layout() {
    test("package", &[]);
    test("package", &["moe"]);
    for target in [
        &["--bin", "package"],
        &["--bin", "second"],
        &["--example", "example"],
    ] {
        run(cargo(&fixture("package"))
            .args(["run", "--offline", "--quiet"])
            .args(target));
    }
}

#[test]
fn a_renamed_runtime_without_std_in_an_older_edition() {
    test("renamed", &[]);
}

#[test]
fn kernels_made_by_another_crates_macro() {
    test("foreign", &[]);
}

#[test]
fn documentation_and_remapped_paths() {
    run(cargo(&fixture("package"))
        .args(["doc", "--offline", "--quiet", "--no-deps"])
        .env("RUSTDOCFLAGS", "-Dwarnings"));
    let remap = format!(
        "--remap-path-prefix={}=/elsewhere",
        fixture("package")
            .canonicalize()
            .expect("a fixture")
            .display()
    );
    run(cargo(&fixture("package"))
        .args(["check", "--offline", "--quiet", "--all-targets"])
        .env("RUSTFLAGS", remap));
}

/// A brick that comes, goes or changes its name in a file other than that of `bricks!`.
#[test]
fn the_registry_follows_edits_of_other_files() {
    let package = target().join("edited");
    std::fs::create_dir_all(package.join("src")).expect("a directory");
    let runtime = Path::new(env!("CARGO_MANIFEST_DIR")).join("../brick-runtime");
    let manifest = format!(
        "[package]\nname = \"edited\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\nbrick-runtime = {{ path = {runtime:?} }}\n\n[workspace]\n"
    );
    std::fs::write(package.join("Cargo.toml"), manifest).expect("a manifest");
    let main = "mod kernels;\nbrick_runtime::bricks!();\nfn main() {\n    println!(\"{:?}\", BrickId::ALL);\n}\n";
    std::fs::write(package.join("src/main.rs"), main).expect("a program");
    for ids in [&["A"][..], &["A", "B"], &["A", "C"], &["C"]] {
        let kernels: String = ids
            .iter()
            .map(|id| format!("#[brick_runtime::brick(id = {id})]\npub fn f{id}() {{}}\n"))
            .collect();
        std::fs::write(
            package.join("src/kernels.rs"),
            format!("#![allow(dead_code, non_snake_case)]\n{kernels}"),
        )
        .expect("a module");
        let printed = run(cargo(&package)
            .args(["run", "--offline", "--quiet"])
            .env("CARGO_INCREMENTAL", "1"));
        assert_eq!(printed.trim(), format!("[{}]", ids.join(", ")));
    }
}
