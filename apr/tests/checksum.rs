//! `apr trace checksum`: a fault planted in one layer is found there.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use support::refusal::{apr, patched, with_file};
use support::writer::patch;

/// Standard output, what was said, and the exit code.
fn checksum(options: &[&str]) -> (String, String, Option<i32>) {
    let output = apr(&[
        &["trace", "checksum", "--prompt", "hello world", "-n", "3"],
        options,
    ]
    .concat());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

fn reference(dir: &Path) -> String {
    let path = dir.join("reference.json").to_str().unwrap().to_owned();
    let (out, told, code) = checksum(&["--output", &path]);
    assert_eq!(code, Some(0), "{told}");
    assert!(out.ends_with(" tensors, written\n"), "{out}");
    path
}

#[test]
fn the_same_run_is_the_same_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let path = reference(dir.path());
    for threads in ["1", "2"] {
        let (out, told, code) = checksum(&["--against", &path, "--threads", threads]);
        assert_eq!(code, Some(0), "{told}");
        assert!(out.ends_with(" tensors, the same to the bit\n"), "{out}");
    }
}

/// One weight of the last layer's second norm a little larger: everything before is the same.
#[test]
fn a_fault_in_one_layer_is_found_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = reference(dir.path());
    let planted = |factor: f32, options: &[&str]| {
        let file = patched(|layout, all| {
            let at = layout.tensor("blk.1.ffn_norm.weight").data_at + 4 * 9;
            let weight = f32::from_le_bytes(all[at..at + 4].try_into().unwrap());
            patch(all, at, (weight * factor).to_le_bytes());
        });
        with_file(&file, |model| {
            let model = ["--model", model.to_str().unwrap(), "--against", &path];
            checksum(&[&model[..], options].concat())
        })
    };
    let (out, told, code) = planted(1.0 + 1e-6, &[]);
    assert_eq!((out.as_str(), code), ("", Some(1)));
    assert!(
        told.contains(" at ffn_norm of layer 1 at position 0: "),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");

    // Tolerated where it is small, and found where it is not.
    let (out, told, code) = planted(1.0 + 1e-6, &["--tolerance", "1e-3"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        out.ends_with(" tensors, within 0.001 of the norm (estimated)\n"),
        "{out}"
    );
    let (_, told, code) = planted(3.0, &["--tolerance", "1e-3"]);
    assert_eq!(code, Some(1));
    assert!(
        told.contains(" at ffn_norm of layer 1 at position 0: "),
        "{told}"
    );
    assert!(told.contains(" of the norm apart (estimated)"), "{told}");
}

#[test]
fn a_missing_tensor_is_a_divergence() {
    let dir = tempfile::tempdir().unwrap();
    let path = reference(dir.path());
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(file["schema"], "apr.checksum/1");
    let entries = file["checksums"].as_array_mut().unwrap();
    let at = entries
        .iter()
        .position(|e| e["kernel"] == "q" && e["layer"] == 1)
        .unwrap();
    entries.remove(at);
    std::fs::write(&path, file.to_string()).unwrap();
    let (_, told, code) = checksum(&["--against", &path]);
    assert_eq!(code, Some(1));
    let expected = "q of layer 1 at position 0: the run has one, the reference does not\n";
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn other_tokens_and_other_files_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = reference(dir.path());
    let other = apr(&[
        "trace",
        "checksum",
        "--prompt",
        "hello there",
        "-n",
        "3",
        "--against",
        &path,
    ]);
    assert_eq!(other.status.code(), Some(1));
    let told = String::from_utf8(other.stderr).unwrap();
    assert!(
        told.ends_with("reference.json is of another prompt\n"),
        "{told}"
    );
    // A token chosen otherwise, of a run whose kernels are right.
    let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let n = file["prompt_tokens"].as_u64().unwrap();
    file["tokens"][n as usize] = 1.into();
    let entries = file["checksums"].as_array_mut().unwrap();
    let embedding = entries
        .iter_mut()
        .find(|e| e["kernel"] == "embedding" && e["position"] == n);
    embedding.unwrap()["exact"] = "0123456789abcdef".into();
    std::fs::write(&path, file.to_string()).unwrap();
    let (_, told, code) = checksum(&["--against", &path]);
    assert_eq!(code, Some(1));
    assert!(
        told.contains(&format!(" at position {n}: it feeds token ")),
        "{told}"
    );
    let wrong = dir.path().join("wrong.json");
    std::fs::write(&wrong, "{}").unwrap();
    let (_, told, code) = checksum(&["--against", wrong.to_str().unwrap()]);
    assert_eq!((code, told.lines().count()), (Some(1), 1), "{told}");
    assert!(
        told.contains("holds no checksums (apr.checksum/1)"),
        "{told}"
    );
    let none = Command::new(env!("CARGO_BIN_EXE_apr"))
        .args(["trace", "checksum"])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(2));
}
