//! `apr bench`, through the real binary.
#![allow(missing_docs)]

#[path = "../../tests/oracles/mod.rs"]
mod oracles;
mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use support::model_trace::{list, near};
use support::refusal::{apr, assert_refused, patched, with_file, with_value, without_key};
use support::writer::patch;
use support::{fetched, golden, tiny, tiny_llama};

fn bench(args: &[&str]) -> Value {
    let args = [&["bench", "--json"], args].concat();
    let output = apr(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

/// A spread's samples, having looked at what is made of them.
fn samples(spread: &Value, provenance: &str) -> Vec<f64> {
    assert_eq!(spread["provenance"], provenance, "{spread}");
    let samples: Vec<f64> = list(&spread["samples"]).iter().map(number).collect();
    assert!(samples.iter().all(|&s| s > 0.0), "{spread}");
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    // Three samples: the quartiles lie half way from the middle one.
    let [low, middle, high] = sorted[..] else {
        panic!("{spread}");
    };
    for (what, expected) in [
        ("median", middle),
        ("q1", (low + middle) / 2.0),
        ("q3", (middle + high) / 2.0),
    ] {
        near(&spread[what], &json!(expected), 1e-9 * expected);
    }
    samples
}

/// Tensor bytes by name, as `apr inspect` reads them off the file.
fn tensor_bytes(model: &Path) -> BTreeMap<String, u64> {
    let output = apr(&["inspect", "--json", model.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of = |tensor: &Value| {
        let name = tensor["name"].as_str().unwrap().to_owned();
        (name, tensor["bytes"].as_u64().unwrap())
    };
    list(&report["tensors"]).iter().map(of).collect()
}

#[test]
fn every_figure_follows_from_its_parts() {
    let report = bench(&["-p", "24", "-n", "8", "-t", "2,1", "-r", "3"]);
    assert_eq!(report["schema"], "apr.bench/1");
    assert_eq!(report["context"], 24);
    assert_eq!(report["warm_up"], json!([24, 1]));
    assert_eq!(report["identity"]["model"]["bytes"], 1_302_976);

    let load = samples(&report["load_ms"], "measured");
    let first = samples(&report["first_token_ms"], "measured");
    assert!(load.iter().zip(&first).all(|(load, first)| load < first));

    // Of the embedding, one of 384 rows; all else is read.
    let mut bytes = tensor_bytes(&tiny_llama());
    let row = bytes.remove("token_embd.weight").unwrap() / 384;
    let weights = row + bytes.values().sum::<u64>();
    assert_eq!(
        report["weight_bytes_per_token"]["value"],
        json!(weights as f64)
    );

    let tests = list(&report["tests"]);
    let told = tests
        .iter()
        .map(|t| (t["name"].as_str().unwrap(), t["threads"].as_u64().unwrap()));
    assert_eq!(
        Vec::from_iter(told),
        [("pp24", 2), ("tg8", 2), ("pp24", 1), ("tg8", 1)]
    );
    for test in tests {
        let tokens = number(&test["tokens"]);
        let ms = samples(&test["ms"], "measured");
        let rates = samples(&test["tokens_per_s"], "derived");
        for (ms, rate) in ms.iter().zip(rates) {
            assert!((rate * ms / 1e3 / tokens - 1.0).abs() < 1e-9, "{test}");
        }
        let read = &test["read_gb_per_s"];
        if test["kind"] == "decode" {
            assert_eq!(read["provenance"], "derived");
            let expected = weights as f64 * number(&test["tokens_per_s"]["median"]) / 1e9;
            near(&read["value"], &json!(expected), 1e-9 * expected);
        } else {
            assert_eq!(
                (&test["kind"], &read["value"]),
                (&json!("prompt"), &Value::Null)
            );
            assert_eq!(read["provenance"], "unavailable");
        }
    }
    // A pass of the three layers is 37 calls: an embedding, the angles, 3 × 11, a norm, a head.
    let hooks = |test: &Value| test["profiler"]["hooks"].as_u64().unwrap();
    assert_eq!(hooks(&tests[1]), 3 * 8 * 37);
    assert_eq!(hooks(&tests[2]), 3 * 37);

    let peak = &report["peak_rss_bytes"];
    if cfg!(target_os = "linux") {
        assert_eq!(peak["provenance"], "measured");
        let mb = number(&peak["value"]) / 1e6;
        // More than the model, which is in the binary; less than a process that leaks or counts pages.
        assert!((2.0..2000.0).contains(&mb), "{mb}");
    }
}

/// llama.cpp's own count of what Gemma, whose head is its embedding, reads for a token.
#[test]
fn a_tied_head_is_read_once() {
    let Some(path) = fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    let model = ["--model", path.to_str().unwrap()];
    let report = bench(&[&["-p", "0", "-n", "1", "-r", "3"], &model[..]].concat());
    assert_eq!(
        report["weight_bytes_per_token"]["value"],
        json!(246_587_904.0)
    );
    assert_eq!(list(&report["tests"]).len(), 1);
    samples(&report["tests"][0]["ms"], "measured");
}

#[test]
fn for_people() {
    let output = apr(&["bench", "-n", "4", "-r", "1", "-t", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for told in [
        "model    built-in tiny-llama (random weights), architecture llama\n",
        "weights  1.2 MB read for each token (derived)\n",
        "(measured, page cache warm)\n",
        "context of 256 positions\n",
        // The built-in model's context is shorter than the usual prompt.
        " pp256 ",
        " tg4 ",
        "after a warm-up of 256 + 1 tokens that is not counted\n",
        "in these times: profiler ",
        "measured: ms; derived: tokens/s, ",
    ] {
        assert!(text.contains(told), "{told:?} in {text}");
    }
    assert!(!text.contains('\x1b'), "colour in a pipe");
    assert_eq!(output.stderr, b"");
}

#[test]
fn mistakes_are_told() {
    let text = golden("perplexity.txt");
    let text = text.to_str().unwrap();
    for (args, told) in [
        (
            &["-p", "0", "-n", "0"][..],
            "nothing to measure: -p and -n are 0",
        ),
        (
            &["-p", "257"],
            "257 tokens asked for, the model's context is 256 tokens",
        ),
        (
            &["-n", "18446744073709551615"],
            "the model's context is 256 tokens",
        ),
        (
            &["--ctx", "257"],
            "257 tokens asked for, the model's context is 256 tokens",
        ),
        (
            &["--ctx", "63"],
            "--ctx 63 has no room for the 64 tokens of -n",
        ),
        (
            &["--ctx", "64", "-p", "65"],
            "--ctx 64 has no room for the 65 tokens of -p",
        ),
        (&["--model", "no/such/file"], "no/such/file"),
        (
            &["--export", "chrome=no/such/file"],
            "cannot write chrome=no/such/file",
        ),
        (&["--perplexity", "no/such/text"], "no/such/text"),
        (
            &["--perplexity", text],
            "perplexity.txt has 308 tokens, at least 1024 (two chunks)",
        ),
        (
            &["--perplexity", text, "--ctx", "155"],
            "at least 310 (two chunks)",
        ),
        (
            &["--perplexity", text, "--ctx", "3"],
            "--ctx 3 is too short",
        ),
        (
            &["--perplexity", text, "-t", "1,2"],
            "--perplexity computes on one number of threads",
        ),
    ] {
        let args = [&["bench"], args].concat();
        let output = apr(&args);
        assert_refused(&output, told);
        assert_eq!(output.stdout, b"", "{args:?}");
    }
    for args in [
        &["-r", "0"][..],
        &["-t", "0"],
        &["-t", "1,1025"],
        &["--ctx", "0"],
        &["--chunks", "1"],
        &["--perplexity", text, "-n", "4"],
        &["--perplexity", text, "-r", "2"],
    ] {
        let output = apr(&[&["bench"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
    with_file(&without_key("llama.embedding_length"), |path| {
        let output = apr(&["bench", "--model", path.to_str().unwrap()]);
        assert_refused(&output, "llama.embedding_length");
    });
}

/// Every pass of a bench is a token of the trace, below the test it is part of.
#[test]
fn spans_arrive() {
    let Some(python) = oracles::python() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans.jsonl");
    let receiver = oracles::Receiver::start(&python, &file);
    let url = receiver.url();
    let size = ["bench", "-p", "5", "-n", "4", "-r", "2", "-t", "1"];
    let output = apr(&[&size[..], &["--otlp-endpoint", &url]].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(told.contains(" 0 dropped (measured)"), "{told}");
    let spans = fs::read_to_string(&file).unwrap();
    let spans: Vec<Value> = spans
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let named = |name: &str| {
        spans
            .iter()
            .filter(|s| s["name"] == name)
            .collect::<Vec<_>>()
    };
    let root = named("apr bench");
    assert_eq!(root.len(), 1);
    let attributes = &root[0]["attributes"];
    assert_eq!(
        attributes["gen_ai.usage.input_tokens"],
        json!(["int_value", 15])
    );
    assert_eq!(
        attributes["gen_ai.usage.output_tokens"],
        json!(["int_value", 9])
    );
    // Each test twice and two loads; of the prompts and of the single tokens one is a warm-up's.
    let counts = ["warm-up", "prompt", "decode", "step", "load"].map(|n| named(n).len());
    assert_eq!(counts, [1, 2, 2, 8 + 1, 2]);
    assert_eq!(named("LmHead").len(), (2 + 1) + (8 + 1) + 2);
    let decodes: Vec<&Value> = named("decode")
        .iter()
        .map(|span| &span["span_id"])
        .collect();
    let steps = named("step");
    let inside = steps
        .iter()
        .filter(|step| decodes.contains(&&step["parent_span_id"]));
    assert_eq!(inside.count(), 8);
}

/// A model with a NaN stops both kinds of bench with the diagnosis of `apr run`, and what was recorded
/// until then is there.
#[test]
fn a_nan_is_diagnosed() {
    let bytes = patched(|layout, bytes| {
        let norm = layout.tensor("blk.1.attn_norm.weight");
        patch(bytes, norm.data_at + 4 * 5, f32::NAN.to_le_bytes());
    });
    let text = golden("perplexity.txt");
    let scored = ["--perplexity", text.to_str().unwrap(), "--ctx", "16"];
    with_file(&bytes, |path| {
        for (args, span) in [(&["-p", "4"][..], "warm-up"), (&scored, "chunk")] {
            let stacks = path.with_file_name("stacks");
            let export = format!("folded={}", stacks.display());
            let always = [
                "bench",
                "--model",
                path.to_str().unwrap(),
                "--export",
                &export,
            ];
            let output = apr(&[&always[..], args].concat());
            let told = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert_eq!(output.stdout, b"");
            assert!(
                told.contains("apr: stopped: brick `RmsNorm` broke its contract"),
                "{told}"
            );
            assert!(told.contains("blk.1.attn_norm.weight"), "{told}");
            let stacks = fs::read_to_string(stacks).unwrap();
            assert!(
                stacks.contains(span) && stacks.contains("RmsNorm"),
                "{stacks}"
            );
        }
    });
}

fn perplexity(model: &Path, text: &Path, args: &[&str]) -> Value {
    let files = [
        "--model",
        model.to_str().unwrap(),
        "--perplexity",
        text.to_str().unwrap(),
    ];
    bench(&[&files[..], args].concat())
}

/// Asserts that the perplexities are those of an entry of `perplexity_f64.json`, within a share.
fn assert_foretells(report: &Value, expected: &Value, within: f64) {
    assert_eq!(report["schema"], "apr.perplexity/1");
    assert_eq!(report["text"]["tokens"], expected["tokens"]);
    assert_eq!(report["scored_tokens"], expected["scored_tokens"]);
    let same = |found: &Value, expected: &Value| near(found, expected, within * number(expected));
    for figure in ["perplexity", "standard_error"] {
        assert_eq!(report[figure]["provenance"], "derived");
        same(&report[figure]["value"], &expected[figure]);
    }
    let (found, expected) = (list(&report["chunks"]), list(&expected["chunks"]));
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).for_each(|(f, e)| same(f, e));
}

/// Against llama.cpp's tokens and numpy's forward pass in 64-bit floats; the chunks are longer than
/// tiny-gemma3's window.
#[test]
fn perplexity_is_that_of_the_f64_forward_pass() {
    let oracle = support::json(&golden("perplexity_f64.json"));
    let check = |model: &Path, expected: &Value| {
        let ctx = expected["ctx"].to_string();
        let (text, args) = (golden("perplexity.txt"), ["--ctx", &ctx]);
        let exact = [&args[..], &["--precision", "f32"]].concat();
        assert_foretells(&perplexity(model, &text, &exact), expected, 1e-5);
        // Perplexities of random weights reach 1e20: so many shares of a logit are in them.
        assert_foretells(&perplexity(model, &text, &args), expected, 0.1);
    };
    for name in ["tiny-llama", "tiny-gemma3", "tiny-qwen2", "tiny-qwen3"] {
        check(&tiny(name), &oracle[name]);
    }
    with_file(&with_value("tokenizer.ggml.add_bos_token", [0]), |path| {
        check(path, &oracle["tiny-llama without BOS"]);
    });
}

#[test]
fn perplexity_of_the_first_chunks() {
    let text = golden("perplexity.txt");
    let all = perplexity(&tiny_llama(), &text, &["--ctx", "64", "-t", "2"]);
    let two = perplexity(
        &tiny_llama(),
        &text,
        &["--ctx", "64", "-t", "1", "--chunks", "2"],
    );
    assert_eq!(list(&two["chunks"]), &list(&all["chunks"])[..2]);
    assert_eq!(two["perplexity"]["value"], all["chunks"][1]);
    let output = apr(&[
        "bench",
        "--perplexity",
        text.to_str().unwrap(),
        "--ctx",
        "64",
        "--chunks",
        "2",
    ]);
    let shown = String::from_utf8(output.stdout).unwrap();
    let last = format!("perplexity  {:.4} ± ", number(&all["chunks"][1]));
    assert!(shown.contains(&last), "{shown}");
    assert!(
        shown.contains("308 tokens, 2 chunks of 64 read\n"),
        "{shown}"
    );
    assert!(
        shown.contains("(derived from 62 scored tokens)\n"),
        "{shown}"
    );
}

/// What llama.cpp (commit 0c1e57098) says of the first two chunks, `llama-perplexity -c 512 -f GPL-3`:
/// `[1]13.0142,[2]13.8935`.
const GEMMA_BY_LLAMA_CPP: [f64; 2] = [13.0142, 13.8935];

/// Two chunks of the GNU General Public License, where Debian's copy is: as numpy in 64-bit floats, and
/// as llama-perplexity, which rounds activations to 8 bits, keys and values to 16. Rounded as it rounds
/// them, the first chunk is at 12.9926 in numpy, exactly at 12.8688: that is what exact activations
/// are allowed beyond rounded ones.
#[test]
fn perplexity_of_gemma() {
    let text = Path::new("/usr/share/common-licenses/GPL-3");
    let Some(path) = fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    if !text.is_file() {
        eprintln!("skipped: there is no {}", text.display());
        return;
    }
    let expected = &support::json(&golden("perplexity_f64.json"))["gemma3-270m"];
    let args = ["--ctx", "512", "--chunks", "2"];
    let exact = [&args[..], &["--precision", "f32"]].concat();
    let report = perplexity(&path, text, &exact);
    if report["text"]["sha256"] != expected["sha256"] {
        eprintln!(
            "skipped: {} is not the text of the golden file",
            text.display()
        );
        return;
    }
    assert_foretells(&report, expected, 1e-4);
    let rounded = perplexity(&path, text, &args);
    for (report, within) in [(&report, 0.012), (&rounded, 0.005)] {
        for (found, llama_cpp) in list(&report["chunks"]).iter().zip(GEMMA_BY_LLAMA_CPP) {
            near(found, &json!(llama_cpp), within * llama_cpp);
        }
    }
}
