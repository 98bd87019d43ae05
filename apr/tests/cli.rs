//! The binary as people meet it.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::Instant;
use support::writer::Writer;
use support::{fetched, golden, json, tiny_llama, unhex};

fn apr(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
    command.args(args).output().unwrap()
}

fn apr_with_input(args: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn mistakes_on_the_command_line() {
    for (args, told) in [
        (&["tokenize", "--text", "a", "--colour"][..], "--colour"),
        (&["tokenize"], "--text <STRING>|--file <FILE>"),
        (
            &["tokenize", "--text", "a", "--file", "b"],
            "cannot be used with",
        ),
        (&["inspect", "--frobnicate"], "--frobnicate"),
        (&["inspect", "a.gguf", "b.gguf"], "unexpected argument"),
        (&["frobnicate"], "unrecognized subcommand"),
        (&[], "Usage: apr"),
    ] {
        let output = apr(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(told), "{args:?}: {stderr}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn help_shows_examples_for_every_command() {
    let top = stdout(&apr(&["--help"]));
    let commands = top.lines().skip_while(|l| *l != "Commands:").skip(1);
    let names = commands.map_while(|l| l.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(
        names.contains(&"inspect") && names.contains(&"tokenize"),
        "{top}"
    );
    for name in names {
        let help = stdout(&apr(&[name, "--help"]));
        assert!(help.contains(&format!("Examples:\n  apr {name}")), "{help}");
    }
}

/// The whole report, as it was read over once; sizes and offsets are those of `Layout`'s walk and
/// of the generator that made the file.
#[test]
fn inspect_for_people() {
    let report = stdout(&apr(&["inspect", "--check"]));
    let expected = std::fs::read_to_string(golden("inspect-tiny-llama.txt")).unwrap();
    assert_eq!(report, expected);
}

#[test]
fn inspect_for_programs() {
    let path = tiny_llama();
    let output = apr(&["inspect", "--json", "--check", path.to_str().unwrap()]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["schema"], "apr.inspect/1");
    assert_eq!(report["file_bytes"], 1_302_976);
    assert_eq!(report["data_offset_bytes"], 10_944);
    assert_eq!(report["runs_as"], "llama");
    assert_eq!(report["problems"], Value::Array(vec![]));
    assert_eq!(report["check"]["tensors"], 30);
    assert_eq!(report["check"]["bytes"], 1_302_976 - 10_944);
    let tokens = &report["metadata"][16];
    assert_eq!(tokens["key"], "tokenizer.ggml.tokens");
    assert_eq!(tokens["value"]["len"], 384);
    assert_eq!(tokens["value"]["head"][1], "<s>");
    let last = &report["tensors"][29];
    assert_eq!(last["name"], "output.weight");
    assert_eq!(last["offset_bytes"], 10_944 + 1_211_392);
    let unchecked = apr(&["inspect", "--json", path.to_str().unwrap()]);
    let unchecked: Value = serde_json::from_str(&stdout(&unchecked)).unwrap();
    assert_eq!(unchecked["check"], Value::Null);
}

/// Totals against those of gguf-py's dump of the same file.
#[test]
fn inspect_gemma() {
    let Some(path) = fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    let output = apr(&["inspect", "--json", path.to_str().unwrap()]);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(report["data_offset_bytes"], 6_525_120);
    assert_eq!(report["n_params"], 268_098_176);
    assert_eq!(report["tensor_bytes"], 246_587_904);
    let totals = report["totals"].as_array().unwrap();
    let totals: Vec<_> = totals
        .iter()
        .map(|t| (&t["type"], &t["tensors"], &t["bytes"]))
        .collect();
    let expected = [
        ("F32", 109, 223_744),
        ("Q5_0", 81, 43_591_680),
        ("Q8_0", 10, 179_824_640),
        ("Q4_K", 27, 13_271_040),
        ("Q6_K", 9, 9_676_800),
    ];
    assert!(
        expected.iter().eq(totals
            .iter()
            .map(|(ty, n, bytes)| {
                (
                    ty.as_str().unwrap(),
                    n.as_u64().unwrap(),
                    bytes.as_u64().unwrap(),
                )
            })
            .collect::<Vec<_>>()
            .iter()),
        "{totals:?}"
    );
}

#[test]
fn tokenize_for_programs() {
    let case = &json(&golden("tiny-llama.llama_cpp.json"))["tokenize"];
    for case in case.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        if text.contains('\0') {
            continue; // No argument can hold it.
        }
        let mut args = vec!["tokenize", "--json", "--text", text];
        if case["add_special"] == false {
            args.push("--no-add-special");
        }
        if case["parse_special"] == false {
            args.push("--no-parse-special");
        }
        let found: Value = serde_json::from_str(&stdout(&apr(&args))).unwrap();
        assert_eq!(found["schema"], "apr.tokenize/1");
        assert_eq!(found["ids"], case["tokens"], "{text:?}");
        let pieces = found["tokens"].as_array().unwrap().iter();
        assert!(
            pieces
                .map(|t| &t["bytes_hex"])
                .eq(case["pieces_hex"].as_array().unwrap())
        );
    }
}

#[test]
fn tokenize_bytes_that_are_not_utf8() {
    let case = &json(&golden("tiny-llama.llama_cpp.json"))["tokenize_invalid_utf8"];
    let args = [
        "tokenize",
        "--json",
        "--no-add-special",
        "--no-parse-special",
        "--file",
        "-",
    ];
    for case in case.as_array().unwrap() {
        let bytes = unhex(case["bytes_hex"].as_str().unwrap());
        let found = stdout(&apr_with_input(&args, &bytes));
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["ids"], case["tokens"]);
    }
}

#[test]
fn tokenize_for_people() {
    let found = stdout(&apr(&["tokenize", "--text", "hello\n<s>é"]));
    let expected = "\
model   built-in tiny-llama (random weights)
tokens  6 from 11 bytes of text

  id  kind     text
   1  control  \"<s>\"
 337  normal   \" hello\"
 329  normal   \"\\n\"
   1  control  \"<s>\"
 259  normal   \" \"
 368  normal   \"é\"
";
    assert_eq!(found, expected);
}

#[test]
fn options_stand_under_their_own_headings() {
    let help = stdout(&apr(&["run", "--help"]));
    let (plain, sampling) = help.split_once("\nSampling:\n").unwrap();
    for option in ["--model", "--threads", "--top-logits", "--json"] {
        assert!(plain.contains(option), "{option}: {help}");
    }
    for option in ["--temperature", "--top-k", "--seed"] {
        assert!(sampling.contains(option), "{option}: {help}");
    }
}

/// Every way of printing, each to a pipe that nobody reads.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for args in [
        &["inspect"][..],
        &["inspect", "--json"],
        &["tokenize", "--text", "a"],
        &["tokenize", "--text", "a", "--json"],
        &["run", "--prompt", "a"],
        &["run", "--prompt", "a", "--json"],
        &["profile", "--tokens", "1"],
        &["profile", "--tokens", "1", "--format", "json"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
        command
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}");
        assert_eq!(stderr, "", "{args:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = std::fs::File::create("/dev/full") else {
        return; // Linux has it.
    };
    for args in [
        &["inspect"][..],
        &["tokenize", "--text", "a", "--json"],
        &["run", "--prompt", "a"],
        &["run", "--prompt", "a", "--json"],
        &["profile", "--tokens", "1"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
        let output = command
            .args(args)
            .stdout(full.try_clone().unwrap())
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.starts_with("apr: No space left"),
            "{args:?}: {stderr}"
        );
    }
}

#[test]
fn an_error_that_nobody_reads_is_still_exit_code_1() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
    command.args(["inspect", "/no/such/file"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

/// A path can hold anything: what is shown of it is on one line and steers no terminal.
#[test]
fn a_model_with_a_strange_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a\x1b[31m\nmodel.gguf");
    std::fs::copy(tiny_llama(), &path).unwrap();
    let path = path.to_str().unwrap();
    for args in [
        &["inspect", path][..],
        &["tokenize", "--text", "a", "--model", path],
        &["profile", "--tokens", "1", "--model", path],
    ] {
        let shown = stdout(&apr(args));
        let first = shown.lines().next().unwrap();
        assert!(first.contains("/a\\u{1b}[31m\\nmodel.gguf"), "{first}");
        assert!(!shown.contains('\x1b'));
    }
    let report: Value = serde_json::from_str(&stdout(&apr(&["inspect", "--json", path]))).unwrap();
    assert_eq!(report["model"], path);
}

/// A tensor of a quarter of a terabyte in a file that is nearly all hole: reading it would take
/// minutes.
#[test]
fn no_tensor_data_is_read_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hole.gguf");
    let header = Writer::new().tensor("huge", &[1 << 36], 0, 0).bytes();
    std::fs::write(&path, &header).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    if file.set_len(header.len() as u64 + (1 << 38)).is_err() {
        return; // A file system without holes.
    }
    let clock = Instant::now();
    let output = apr(&["inspect", path.to_str().unwrap()]);
    let report = String::from_utf8(output.stdout).unwrap();
    assert!(report.contains("274,877,906,944"), "{report}");
    assert!(clock.elapsed().as_secs() < 10, "{:?}", clock.elapsed());
}
