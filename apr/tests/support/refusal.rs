//! Runs the binary on bad files and looks at how it refuses them.

use super::tiny_llama;
use super::writer::{Layout, patch, string};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

pub fn apr<S: AsRef<OsStr>>(args: &[S]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
    command.args(args).output().unwrap()
}

/// Standard output and standard error of a run that goes well.
fn told(args: &[&str]) -> [String; 2] {
    let output = apr(args);
    let told = [output.stdout, output.stderr].map(|out| String::from_utf8(out).unwrap());
    assert!(output.status.success(), "{args:?}: {}", told[1]);
    told
}

/// The JSON that a run prints.
pub fn json_of(args: &[&str]) -> Value {
    let [json, _] = told(args);
    serde_json::from_str(&json).unwrap()
}

/// The text that a run prints, whatever it says on standard error.
pub fn text_of(args: &[&str]) -> String {
    let [text, _] = told(args);
    text
}

/// The text that a run prints which has nothing else to say.
pub fn quiet_text_of(args: &[&str]) -> String {
    let [text, stderr] = told(args);
    assert_eq!(stderr, "", "{args:?}");
    text
}

/// Asserts that a run failed with one line that holds `expected`.
pub fn assert_refused(output: &Output, expected: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{expected:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("apr: "), "{stderr}");
    assert!(
        stderr.contains(expected),
        "expected {expected:?} in {stderr:?}"
    );
}

pub fn with_file<T>(bytes: &[u8], run: impl FnOnce(&Path) -> T) -> T {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    run(&path)
}

/// A file that cannot even be read as GGUF: no report.
pub fn refuse(bytes: &[u8], expected: &str) {
    with_file(bytes, |path| {
        let output = apr(&[OsStr::new("inspect"), path.as_os_str()]);
        assert_refused(&output, expected);
        assert!(String::from_utf8_lossy(&output.stderr).contains("model.gguf: "));
        assert_eq!(output.stdout, b"", "{expected:?}");
    });
}

/// A well-formed file that cannot be run: a report, with the problem in it.
pub fn refuse_to_run(bytes: &[u8], expected: &str) {
    with_file(bytes, |path| {
        let output = apr(&[OsStr::new("inspect"), path.as_os_str()]);
        assert_refused(&output, expected);
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(report.contains(expected), "{report}");
    });
}

/// The tiny llama with a change, which is told where the parts of the file are.
pub fn patched(change: impl FnOnce(&Layout, &mut Vec<u8>)) -> Vec<u8> {
    patched_file(&tiny_llama(), change)
}

pub fn patched_file(path: &Path, change: impl FnOnce(&Layout, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = fs::read(path).unwrap();
    let layout = Layout::of(&bytes);
    change(&layout, &mut bytes);
    bytes
}

pub fn with_value(key: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    patched(|layout, bytes| patch(bytes, layout.value(key).start, value))
}

/// The tiny model with a key of another name, which is as good as missing.
pub fn without_key(key: &str) -> Vec<u8> {
    patched(|layout, bytes| {
        // The key's last byte is just before the type id that is before the value.
        patch(bytes, layout.value(key).start - 5, b"?");
    })
}

/// The tiny model with one more key.
pub fn with_key(key: &str, ty: u32, value: &[u8]) -> Vec<u8> {
    patched(|layout, bytes| {
        let entry = [&string(key.as_bytes()), &u32::to_le_bytes(ty)[..], value].concat();
        let count = layout.metadata.len() as u64 + 1;
        // Before the tensors; the padding swallows what it moves, in steps of the alignment.
        let at = layout.tensors[0].name_at;
        let header = [&bytes[24..at], &entry, &bytes[at..layout.header_end]].concat();
        let mut file = [&bytes[..16], &count.to_le_bytes(), &header].concat();
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(&bytes[layout.data..]);
        *bytes = file;
    })
}
