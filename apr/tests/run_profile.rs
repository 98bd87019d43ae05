//! `apr run` and `apr profile`, through the binary.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use support::refusal::{
    apr, assert_refused, json_of, patched, text_of, with_file, with_value, without_key,
};
use support::writer::patch;
use support::{fetched, golden, json};

/// The first prompt of tiny-llama's golden file.
fn first_prompt() -> Value {
    let golden = json(&golden("tiny-llama.llama_cpp.json"));
    golden["prompts"][0].clone()
}

#[test]
fn run_as_json_agrees_with_llama_cpp() {
    let expected = first_prompt();
    let prompt = expected["prompt"].as_str().unwrap();
    let report = json_of(&[
        "run",
        "--prompt",
        prompt,
        "-n",
        "4",
        "--top-logits",
        "10",
        "--json",
    ]);
    assert_eq!(report["schema"], "apr.run/1");
    assert_eq!(report["prompt_ids"], expected["prompt_tokens"]);
    assert_eq!(report["generated_ids"].as_array().unwrap().len(), 4);
    assert_eq!(report["stop"], "length");
    let top = report["top_logits"].as_array().unwrap();
    let oracle = expected["top10_last_prompt_token"].as_array().unwrap();
    assert_eq!(top.len(), 10);
    for (ours, theirs) in top.iter().zip(oracle) {
        let difference = ours["logit"].as_f64().unwrap() - theirs[1].as_f64().unwrap();
        assert!(difference.abs() < 0.1, "{ours} {theirs}");
    }
    assert_eq!(top[0]["id"], oracle[0][0]);
}

/// Each figure says where it is from, and rates are what their parts make. The first token comes
/// with the prompt: four tokens take three passes, and one takes none that could have a rate.
#[test]
fn timings_of_run() {
    let timings =
        |n| json_of(&["run", "--prompt", "hello world", "-n", n, "--json"])["timings"].clone();
    let four = timings("4");
    assert_eq!(four["prefill_tokens"], 3);
    assert_eq!(four["decode_passes"], 3);
    for (rate, count, time) in [
        ("prefill_tokens_per_s", "prefill_tokens", "prefill_ms"),
        ("decode_tokens_per_s", "decode_passes", "decode_ms"),
    ] {
        assert_eq!(four[time]["provenance"], "measured");
        assert_eq!(four[rate]["provenance"], "derived");
        let seconds = four[time]["value"].as_f64().unwrap() / 1e3;
        let expected = four[count].as_f64().unwrap() / seconds;
        let found = four[rate]["value"].as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }
    for n in ["0", "1"] {
        let timings = timings(n);
        assert_eq!(timings["decode_passes"], 0);
        for figure in ["decode_ms", "decode_tokens_per_s"] {
            assert!(timings[figure]["value"].is_null(), "{timings}");
            assert_eq!(timings[figure]["provenance"], "unavailable");
        }
        let told = apr(&["run", "--prompt", "hello world", "-n", n]).stderr;
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains(", 0 further passes n/a ms\n"), "{told}");
        assert!(
            told.contains(" tokens/s, then n/a tokens/s; threads: "),
            "{told}"
        );
    }
}

/// All logits of the vocabulary in order, with the bytes of tokens that are no text.
#[test]
fn as_many_logits_as_there_are_tokens() {
    let report = json_of(&[
        "run",
        "--prompt",
        "hello",
        "-n",
        "0",
        "--top-logits",
        "384",
        "--json",
    ]);
    let top = report["top_logits"].as_array().unwrap();
    let logits: Vec<f64> = top.iter().map(|t| t["logit"].as_f64().unwrap()).collect();
    assert!(logits.is_sorted_by(|a, b| a >= b), "{logits:?}");
    let mut ids: Vec<u64> = top.iter().map(|t| t["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert!(ids.into_iter().eq(0..384));
    let byte = top.iter().find(|t| t["bytes_hex"] == "ff").unwrap();
    assert!(byte["text"].is_null(), "{byte}");
    assert_eq!(byte["kind"], "byte");
}

#[test]
fn nothing_generated_has_no_stop() {
    let report = json_of(&[
        "run",
        "--prompt",
        "hello world",
        "--max-tokens",
        "0",
        "--json",
    ]);
    assert_eq!(report["generated_ids"], Value::Array(vec![]));
    assert_eq!(report["text"], "");
    assert!(report["stop"].is_null());
}

/// The tiny model with its second greedy token for EOS: one token is generated, which the pass for
/// the second one follows. A profile goes on.
#[test]
fn the_end_of_the_text_ends_it() {
    let args = ["run", "--prompt", "hello world", "-n", "8", "--json"];
    let endless = json_of(&args);
    let ids = endless["generated_ids"].as_array().unwrap();
    let second = ids[1].as_u64().unwrap() as u32;
    let file = with_value("tokenizer.ggml.eos_token_id", second.to_le_bytes());
    with_file(&file, |path| {
        let model = ["--model", path.to_str().unwrap()];
        let report = json_of(&[&args[..], &model].concat());
        assert_eq!(report["generated_ids"], Value::from(&ids[..1]));
        assert_eq!(report["stop"], "end");
        assert_eq!(report["timings"]["decode_passes"], 1);
        let args = ["profile", "--prompt", "hello world", "--tokens", "8"];
        let report = json_of(&[&args[..], &["--format", "json"], &model].concat());
        let bricks = report["decode"]["bricks"]["bricks"].as_array().unwrap();
        let head = bricks.iter().find(|b| b["brick"]["name"] == "LmHead");
        assert_eq!(head.unwrap()["calls"], 8);
    });
}

#[test]
fn standard_output_is_the_text_alone() {
    let text = text_of(&["run", "--prompt", "hello world", "-n", "8"]);
    let report = json_of(&["run", "--prompt", "hello world", "-n", "8", "--json"]);
    let generated = report["text"].as_str().unwrap();
    assert_eq!(text, format!("hello world{generated}\n"));
}

#[test]
fn the_same_seed_gives_the_same_text_on_any_number_of_threads() {
    let sampled = |seed: &str, threads: &str| {
        let args = ["run", "--prompt", "hello world", "-n", "24", "--json"];
        let options = ["--temperature", "1.5", "--seed", seed, "--threads", threads];
        json_of(&[&args[..], &options[..]].concat())["generated_ids"].clone()
    };
    let one = sampled("7", "1");
    assert_eq!(one, sampled("7", "1"));
    assert_eq!(one, sampled("7", "2"));
    assert_ne!(one, sampled("8", "1"));
}

#[test]
fn mistakes_are_told() {
    let long = "hello world ".repeat(5000);
    for (args, told) in [
        (&["run", "--prompt", ""][..], "the prompt is empty"),
        (&["profile", "--prompt", ""], "the prompt is empty"),
        (&["run", "--prompt", &long], "the model's context is"),
        (&["profile", "--prompt", &long], "the model's context is"),
        (
            &["profile", "--tokens", "18446744073709551615"],
            "the model's context is 256 tokens",
        ),
        (
            &["profile", "--warmup", "256"],
            "the model's context is 256 tokens",
        ),
        (
            &["run", "--prompt", "a", "-n", "999999"],
            "the model's context is",
        ),
        (
            &["run", "--prompt", "a", "--top-logits", "385"],
            "apr: --top-logits is 385, the vocabulary has 384 tokens",
        ),
        (
            &["run", "--prompt", "a", "--top-k", "4"],
            "--top-k has no effect at temperature 0",
        ),
        (
            &["run", "--prompt", "a", "--seed", "4"],
            "--seed has no effect at temperature 0",
        ),
        (
            &["run", "--prompt", "a", "--temperature", "-1"],
            "apr: --temperature is -1, expected 0 or more",
        ),
        (
            &["run", "--prompt", "a", "--temperature", "nan"],
            "apr: --temperature is NaN, expected 0 or more",
        ),
        (
            &[
                "run",
                "--prompt",
                "a",
                "--temperature",
                "1",
                "--top-p",
                "1.5",
            ],
            "apr: --top-p is 1.5, expected between 0 and 1",
        ),
        (
            &["run", "--prompt", "a", "--repeat-penalty", "0"],
            "apr: --repeat-penalty is 0, expected more than 0",
        ),
        (
            &["run", "--prompt", "a", "--model", "no/such/file"],
            "no/such/file",
        ),
        (&["run", "--prompt", "a", "--model", "/"], "/: "),
    ] {
        assert_refused(&apr(args), told);
    }
    for args in [
        &["run"][..],
        &["run", "--prompt", "a", "--threads", "0"],
        &["run", "--prompt", "a", "--threads", "1025"],
        &["profile", "--threads", "99999999999999999999"],
        &["run", "--prompt", "a", "--max-tokens", "-1"],
        &["run", "--prompt", "a", "--turbo"],
        &["profile", "--tokens", "0"],
        &["profile", "--format", "xml"],
    ] {
        let output = apr(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn a_file_that_cannot_run_is_named() {
    with_file(&without_key("llama.embedding_length"), |path| {
        let path = path.to_str().unwrap();
        for command in ["run", "profile"] {
            let output = apr(&[command, "--prompt", "a", "--model", path]);
            assert_refused(&output, "llama.embedding_length");
        }
    });
}

/// Every call that the architecture implies, and a coverage that leaves nothing big unexplained.
#[test]
fn profile_counts_every_call() {
    let report = json_of(&["profile", "--tokens", "16", "--format", "json"]);
    assert_eq!(report["schema"], "apr.profile/1");
    let (layers, tokens) = (3, 16);
    for (phase, passes) in [("prefill", 1), ("decode", tokens)] {
        let bricks = report[phase]["bricks"]["bricks"].as_array().unwrap();
        let calls = |name: &str| {
            let brick = bricks.iter().find(|b| b["brick"]["name"] == name);
            brick.map_or(0, |b| b["calls"].as_u64().unwrap())
        };
        for (name, per_pass) in [
            ("Embedding", 1),
            ("RmsNorm", layers + 1),
            ("ResidualNorm", layers),
            ("QkvProjection", layers),
            ("RopeEmbedding", 2 * layers),
            ("KvCacheWrite", layers),
            ("AttentionScore", layers),
            ("OutputProjection", layers),
            ("ResidualAdd", layers),
            ("GateUpProjection", layers),
            ("DownProjection", layers),
            ("LmHead", 1),
        ] {
            assert_eq!(calls(name), per_pass * passes, "{phase} {name}");
        }
        let per_token = if phase == "decode" { tokens } else { 0 };
        assert_eq!(calls("Sampling"), per_token);
        assert_eq!(calls("Detokenize"), per_token);
        let qkv = bricks
            .iter()
            .find(|b| b["brick"]["name"] == "QkvProjection")
            .unwrap();
        let in_layers: Vec<u64> = qkv["layers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|l| l["time"]["count"].as_u64().unwrap())
            .collect();
        assert_eq!(in_layers, vec![passes; layers as usize], "{phase}");
        assert_eq!(report[phase]["bricks"]["dropped"], 0);
        assert_eq!(report[phase]["wall_ns"]["provenance"], "measured");
    }
    // 16 passes over 256 × 256 query weights and so on, two operations for each.
    let decode = report["decode"]["bricks"]["bricks"].as_array().unwrap();
    let head = decode
        .iter()
        .find(|b| b["brick"]["name"] == "LmHead")
        .unwrap();
    assert_eq!(head["flops"].as_u64().unwrap(), tokens * 2 * 384 * 256);
    assert_eq!(head["gflop_per_s"]["provenance"], "derived");
}

/// Bricks explain at least 95 % of the wall time, in one run of ten: a pause of the machine between two
/// bricks is not theirs, time that belongs to nothing is there in every run.
fn assert_covered(args: &[&str]) {
    let mut seen = Vec::new();
    for _ in 0..10 {
        let report = json_of(args);
        let of = |phase: &str| {
            let phase = &report[phase];
            let coverage = phase["coverage"]["value"].as_f64().unwrap();
            assert!(coverage <= 1.0, "{coverage}");
            coverage
        };
        let (prefill, decode) = (of("prefill"), of("decode"));
        if prefill >= 0.95 && decode >= 0.95 {
            return;
        }
        seen.push((prefill, decode));
    }
    panic!("{args:?}: {seen:?}");
}

#[test]
fn bricks_cover_the_built_in_model() {
    assert_covered(&["profile", "--tokens", "64", "--format", "json"]);
}

#[test]
fn bricks_cover_gemma() {
    let Some(path) = fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    let path = path.to_str().unwrap();
    assert_covered(&[
        "profile", "--model", path, "--tokens", "4", "--format", "json",
    ]);
}

#[test]
fn profile_for_people() {
    let text = text_of(&["profile", "--tokens", "4", "--warmup", "0"]);
    for told in [
        "model    built-in tiny-llama (random weights), architecture llama\n",
        " ms (measured); ",
        " µs/token (derived)\n",
        "\nmeasured: calls, p50 and p99 (at most 6.25 % off), over budget; ",
        "\nprefill: 41 tokens in ",
        "\ndecode: 4 tokens in ",
        "% of decode",
        "bricks cover ",
        "profiler: ",
        "derived: µs/token, %, * from declared work",
    ] {
        assert!(text.contains(told), "{told:?} in {text}");
    }
    let rows: Vec<&str> = text.lines().filter(|l| l.starts_with("LmHead ")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(!text.contains('\x1b'), "colour in a pipe");
}

/// A NaN in a weight stops the run at the brick, layer and element where it first shows.
#[test]
fn a_nan_stops_at_the_brick_that_made_it() {
    let bytes = patched(|layout, bytes| {
        let norm = layout.tensor("blk.1.attn_norm.weight");
        patch(bytes, norm.data_at + 4 * 5, f32::NAN.to_le_bytes());
    });
    with_file(&bytes, |path| {
        let path = path.to_str().unwrap();
        for command in ["run", "profile"] {
            let output = apr(&[command, "--prompt", "hello", "--model", path]);
            assert_eq!(output.status.code(), Some(1));
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(
                told.starts_with(
                    "apr: stopped: brick `RmsNorm` broke its contract `out: no_nan`\n"
                ),
                "{told}"
            );
            assert!(told.contains(", layer 1, position 0\n"), "{told}");
            assert!(told.contains("first at out[5] = NaN\n"), "{told}");
            assert!(!told.contains("panicked"), "{told}");
        }
    });
}
