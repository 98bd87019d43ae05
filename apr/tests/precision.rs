//! `--precision` and `BRICK_KERNELS`: what matrix products do with their activations, and on which
//! instruction set.
#![allow(missing_docs)]

use serde_json::Value;
use std::process::{Command, Output};

const RUN: [&str; 8] = [
    "run",
    "--prompt",
    "hello world",
    "-n",
    "1",
    "--top-logits",
    "200",
    "--json",
];

fn apr(kernels: Option<&str>, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
    command.args(args).env_remove("BRICK_KERNELS");
    if let Some(kernels) = kernels {
        command.env("BRICK_KERNELS", kernels);
    }
    command.output().unwrap()
}

/// Logits by token id; `None` where the CPU lacks the instruction set.
fn logits(kernels: Option<&str>, more: &[&str]) -> Option<Vec<(u64, f64)>> {
    let output = apr(kernels, &[&RUN, more].concat());
    let stderr = String::from_utf8(output.stderr).unwrap();
    if stderr.contains("this CPU does not have it") {
        eprintln!("skipped: {}", stderr.trim());
        return None;
    }
    assert!(output.status.success(), "{kernels:?} {more:?}: {stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let top = report["top_logits"].as_array().unwrap().iter();
    let pair = |l: &Value| (l["id"].as_u64().unwrap(), l["logit"].as_f64().unwrap());
    let mut logits: Vec<_> = top.map(pair).collect();
    logits.sort_by_key(|&(id, _)| id);
    Some(logits)
}

/// The largest distance over the tokens that both have.
fn distance(a: &[(u64, f64)], b: &[(u64, f64)]) -> f64 {
    let of = |id| b.iter().find(|&&(other, _)| other == id);
    let common = a.iter().filter_map(|&(id, x)| Some((x - of(id)?.1).abs()));
    let common: Vec<f64> = common.collect();
    assert!(common.len() > 100, "{}", common.len());
    common.into_iter().fold(0.0, f64::max)
}

#[test]
fn the_environment_and_the_flag_say_the_same() {
    let rounded = logits(None, &[]).unwrap();
    assert_eq!(logits(None, &["--precision", "int8"]).unwrap(), rounded);
    let exact = logits(None, &["--precision", "f32"]).unwrap();
    assert_eq!(logits(Some("f32"), &[]).unwrap(), exact);
    // The flag asks for rounding; the environment speaks for every program.
    let both = logits(Some("f32"), &["--precision", "int8"]).unwrap();
    assert_eq!(both, exact);
    let off = distance(&rounded, &exact);
    assert!(off > 1e-4 && off < 0.1, "{off}");
}

/// The integers are the same on every set; norms and attention differ in their last bits.
#[test]
fn every_instruction_set_gives_the_same_logits() {
    let best = logits(None, &[]).unwrap();
    for set in ["portable", "avx2", "avxvnni", "avx512", "avx512vnni"] {
        for precision in ["int8", "f32"] {
            let Some(logits) = logits(Some(set), &["--precision", precision]) else {
                continue;
            };
            let off = distance(&logits, &best);
            let bound = if precision == "int8" { 5e-3 } else { 0.1 };
            assert!(off < bound, "{set} {precision}: {off}");
        }
    }
}

#[test]
fn what_is_not_an_instruction_set_is_one_line() {
    for args in [&RUN[..], &["profile"], &["trace", "--kv"]] {
        let output = apr(Some("avx3"), args);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(
            String::from_utf8(output.stderr).unwrap(),
            "apr: BRICK_KERNELS is avx3: expected portable, avx2, avxvnni, avx512, avx512vnni or f32\n"
        );
    }
    let output = apr(None, &[&RUN[..], &["--precision", "int4"]].concat());
    assert_eq!(output.status.code(), Some(2));
}

/// A trace says what its numbers were made with.
#[test]
fn a_trace_says_which_kernels_ran() {
    for (kernels, precision, said) in [
        (Some("portable"), "int8", ("portable", "int8")),
        (Some("portable"), "f32", ("portable", "f32")),
    ] {
        let args = [
            "trace",
            "--quant-error",
            "-n",
            "1",
            "--format",
            "json",
            "--precision",
            precision,
        ];
        let output = apr(kernels, &args);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let ran = &report["identity"]["kernels"];
        assert_eq!(
            (&ran["instruction_set"], &ran["activations"]),
            (&said.0.into(), &said.1.into())
        );
        let applied = &report["quant_error"]["activations"]["applied"];
        assert_eq!(*applied, said.1 == "int8");
    }
}
