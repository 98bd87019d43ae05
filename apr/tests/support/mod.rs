//! Shared by the integration tests.
#![allow(dead_code, missing_docs, unreachable_pub)] // Each test binary uses a part of it.

pub mod model_trace;
pub mod refusal;
pub mod traced;
pub mod vocabularies;
pub mod writer;

use apr::gguf::Mapping;
use serde_json::Value;
use std::path::{Path, PathBuf};

pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

pub fn tiny_llama() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/tiny-llama.gguf")
}

/// One of the tiny models with random weights: `tiny-llama`, which is built in, or a golden one.
pub fn tiny(name: &str) -> PathBuf {
    match name {
        "tiny-llama" => tiny_llama(),
        _ => golden(&format!("{name}.gguf")),
    }
}

pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A model that tests/fetch-models has fetched. `None`, having said so, where it is not there;
/// with `BRICK_REQUIRE_MODELS=1` that is a failure.
pub fn fetched(file: &str) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let models = std::env::var_os("BRICK_MODELS");
    let models = models.map_or_else(|| root.join("target/models"), PathBuf::from);
    let path = models.join(file);
    if path.is_file() {
        return Some(path);
    }
    let required = std::env::var_os("BRICK_REQUIRE_MODELS").is_some_and(|v| v == "1");
    assert!(
        !required,
        "{} is missing: run tests/fetch-models",
        path.display()
    );
    eprintln!(
        "skipped: {} is missing: run tests/fetch-models",
        path.display()
    );
    None
}

pub fn open(path: &Path) -> Mapping {
    Mapping::open(path).unwrap()
}

pub fn unhex(hex: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}
