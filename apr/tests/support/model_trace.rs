//! Runs `apr trace` for its JSON.

use super::refusal::apr;
use serde_json::Value;
use std::path::Path;

pub fn trace(model: &Path, args: &[&str]) -> Value {
    let model = model.to_str().unwrap();
    let args = [&["trace", "--format", "json", "--model", model], args].concat();
    let output = apr(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

#[track_caller]
pub fn near(found: &Value, expected: &Value, tolerance: f64) {
    let (f, e) = (found.as_f64(), expected.as_f64());
    let (f, e) = (f.expect("a number"), e.expect("a number"));
    assert!((f - e).abs() <= tolerance, "{f}, expected {e}");
}
