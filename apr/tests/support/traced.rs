//! Runs `apr run` with a trace, and compares two.

use super::refusal::apr;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs the prompt "hello world" for `n` tokens with the options.
pub fn run(n: &str, options: &[&str]) -> Output {
    let args = ["run", "--prompt", "hello world", "-n", n];
    let output = apr(&[&args[..], options].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options:?}: {stderr}");
    output
}

/// The same, with the trace written to `path`.
pub fn traced(path: &Path, level: &str, options: &[&str]) -> Value {
    let out = path.to_str().unwrap();
    let output = ["--trace-level", level, "--trace-output", out];
    run("4", &[&output[..], options].concat());
    super::json(path)
}

pub fn array<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key}"))
}

/// numpy's statistics of the values that lie beside the trace.
pub fn assert_numpy_agrees(trace: &Path, tensors: usize) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles/trace_stats.py");
    let numpy = Command::new("python3")
        .args(["-c", "import numpy"])
        .status();
    if !numpy.is_ok_and(|status| status.success()) {
        eprintln!("skipped: python3 with numpy is missing");
        return;
    }
    let output = Command::new("python3")
        .arg(script)
        .arg(trace)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let seen = String::from_utf8(output.stdout).unwrap();
    assert_eq!(seen.trim(), tensors.to_string());
}

pub fn diff(a: &Path, b: &Path, options: &[&str]) -> Output {
    let files = [a, b].map(|path| path.to_str().unwrap());
    apr(&[&["trace", "diff"], &files[..], options].concat())
}
