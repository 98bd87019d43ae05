//! Numbers that are NaN or infinite stop a run where they first show, with a diagnosis.
#![allow(missing_docs)]

mod support;

use apr::gguf::Gguf;
use apr::jidoka::{self, Diagnosis};
use apr::model::{Model, ModelError, Session};
use apr::trace::{Collector, Level};
use brick_runtime::contract::{self, Policy, Violation};
use brick_runtime::trace::{StepFilter, TraceLevel};
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use support::refusal::{apr, patched, patched_file, with_file, with_key};
use support::writer::{Layout, patch};
use support::{json, tiny, tiny_llama};

/// What `apr run` says of the tiny llama with a tensor's bytes changed.
fn stopped(tensor: &str, offset: usize, bytes: &[u8], options: &[&str]) -> String {
    let file = patched(|layout, all| {
        let at = layout.tensor(tensor).data_at + offset;
        patch(all, at, bytes);
    });
    with_file(&file, |path| {
        let args = ["run", "--prompt", "hello world", "--model"];
        let model = [path.to_str().unwrap()];
        let output = apr(&[&args[..], &model, options].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(!told.contains("panicked"), "{told}");
        told
    })
}

fn assert_has(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

#[test]
fn a_nan_in_a_norm_is_found_in_the_file() {
    let nan = f32::NAN.to_le_bytes();
    let told = stopped("blk.1.attn_norm.weight", 4 * 5, &nan, &[]);
    assert_has(
        &told,
        &[
            "apr: stopped: brick `RmsNorm` broke its contract `out: no_nan`\n",
            "\nrun again: step ATTENTION of layer 1, position 0: attn_norm[5] = NaN, in brick RmsNorm\n",
            "\n  output attn_norm: min ",
            "; 3 NaN, 0 infinite\n  input layer_output of layer 0: min ",
            "\n  last good layer: 0\n",
            "\nlikely cause: weight blk.1.attn_norm.weight holds a NaN or infinite value in row 0, element 5\n",
        ],
    );
    assert_eq!(told.matches("likely cause").count(), 1, "{told}");
}

/// The same words, whatever command runs the model.
#[test]
fn every_command_that_runs_a_model_diagnoses() {
    let file = patched(|layout, all| {
        let norm = layout.tensor("blk.1.attn_norm.weight");
        patch(all, norm.data_at + 4 * 5, f32::NAN.to_le_bytes());
    });
    let dir = tempfile::tempdir().unwrap();
    let sums = dir.path().join("sums.json");
    let checksum = ["trace", "checksum", "--output", sums.to_str().unwrap()];
    with_file(&file, |path| {
        let told = |command: &[&str]| {
            let options = ["--prompt", "hello world", "--model", path.to_str().unwrap()];
            let output = apr(&[command, &options].concat());
            assert_eq!(output.status.code(), Some(1));
            assert!(output.stdout.is_empty() || command == ["run"]);
            String::from_utf8(output.stderr).unwrap()
        };
        let run = told(&["run"]);
        assert_has(
            &run,
            &["\nlikely cause: weight blk.1.attn_norm.weight holds a NaN "],
        );
        for command in [
            &["profile"][..],
            &["trace", "--activations"],
            &["trace", "--attention", "--logits", "--kv", "--quant-error"],
            &checksum,
        ] {
            assert_eq!(told(command), run, "{command:?}");
        }
        // Of tokens drawn at random.
        let bench = ["bench", "-p", "3", "-n", "1", "-r", "1", "--model"];
        let output = apr(&[&bench[..], &[path.to_str().unwrap()]].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert_has(
            &told,
            &[
                ", position 0: attn_norm[5] = NaN, in brick RmsNorm\n",
                "\nlikely cause: weight blk.1.attn_norm.weight holds a NaN ",
            ],
        );
    });
    assert!(!sums.exists());
}

/// What only the trace computes is not looked for in the run: here the logit lens, where the model ends
/// well. The stream is huge after the last layer but in one element, whose weight in the last norm
/// is as large as f32 has it: before the last layer, that element is beyond f32.
#[test]
fn a_kernel_of_the_traces_own_is_told_as_such() {
    let file = patched(|layout, all| {
        let norm = layout.tensor("blk.2.ffn_norm.weight").data_at;
        for i in 0..256 {
            patch(all, norm + 4 * i, 1e6f32.to_le_bytes());
        }
        // Q4_0: eight blocks of 18 bytes.
        const ROW: usize = 144;
        // Where layer 1's output of the last token is largest.
        const LARGEST: usize = 71;
        let row = ROW * LARGEST;
        let down = layout.tensor("blk.2.ffn_down.weight").data_at + row;
        patch(all, down, [0; ROW]);
        let last = layout.tensor("output_norm.weight").data_at + 4 * LARGEST;
        patch(all, last, 3e38f32.to_le_bytes());
    });
    with_file(&file, |path| {
        let options = [
            "-n",
            "1",
            "--prompt",
            "hello world",
            "--model",
            path.to_str().unwrap(),
        ];
        let plain = apr(&[&["run"][..], &options].concat());
        assert!(
            plain.status.success(),
            "{}",
            String::from_utf8_lossy(&plain.stderr)
        );
        let lens = apr(&[&["trace", "--logits"][..], &options].concat());
        let told = String::from_utf8(lens.stderr).unwrap();
        assert_eq!(lens.status.code(), Some(1), "{told}");
        assert_has(
            &told,
            &[
                "apr: stopped: brick `RmsNorm` broke its contract `out: no_inf`\n",
                "\nlikely cause: the run itself was finite up to here: the kernel that stopped it is one of the trace's own",
            ],
        );
        assert!(!told.contains("run again"), "{told}");
    });
}

/// Layouts as in golden/quant: a scale of the fourth block of row 5 of a Q8_0 matrix.
#[test]
fn an_infinite_scale_is_found_in_the_file() {
    let block = 5 * (256 / 32) + 3;
    let told = stopped("blk.0.attn_output.weight", 34 * block, &[0x00, 0x7c], &[]);
    assert_has(
        &told,
        &[
            "step ATTENTION of layer 0, position 0: attn_out[5] = ",
            ", in brick OutputProjection\n",
            "\n  input attn_heads: min ",
            "\n  last good layer: none\n",
            "weight blk.0.attn_output.weight has a NaN or infinite scale in row 5, block 3\n",
        ],
    );
}

/// Finite weights and inputs whose product is not.
#[test]
fn an_overflow_is_told_by_the_weight_that_is_huge() {
    let huge = 3e38f32.to_le_bytes();
    // Numbers of the reference path.
    let exact = ["--precision", "f32"];
    let told = stopped("blk.2.ffn_norm.weight", 4 * 9, &huge, &exact);
    assert_has(
        &told,
        &[
            "step FEED_FORWARD of layer 2, position 1: ffn_norm[9] = inf, in brick ResidualNorm\n",
            "\n  input attn_residual: min -5.6449, max 5.1300, ",
            "\n  last good layer: 1\n",
            "\nlikely cause: weight blk.2.ffn_norm.weight reaches 3.0e38\n",
        ],
    );
    assert!(!told.contains("NaN or infinite scale"), "{told}");
}

/// Of the three bricks that make queries and keys the one that did it: by the weight that is bad.
#[test]
fn one_of_several_bricks_is_named() {
    let nan = f32::NAN.to_le_bytes();
    for (weight, bad, node, brick) in [
        ("blk.1.attn_q_norm.weight", &nan[..], "q", "HeadNorm"),
        ("blk.1.attn_k_norm.weight", &nan, "k", "HeadNorm"),
        // An infinite f16, as the scale of a block or as the value itself.
        ("blk.0.attn_q.weight", &[0x00, 0x7c], "q", "QkvProjection"),
        ("blk.1.attn_k.weight", &[0x00, 0x7c], "k", "QkvProjection"),
    ] {
        let file = patched_file(&tiny("tiny-qwen3"), |layout, all| {
            patch(all, layout.tensor(weight).data_at, bad);
        });
        let told = with_file(&file, |path| {
            let model = path.to_str().unwrap();
            let output = apr(&["run", "--prompt", "hello world", "--model", model]);
            String::from_utf8(output.stderr).unwrap()
        });
        let (_, found) = told
            .split_once("\nrun again: step ATTENTION of layer ")
            .unwrap();
        let found = found.lines().next().unwrap();
        assert!(found.contains(&format!(", position 0: {node}[")), "{told}");
        assert!(found.ends_with(&format!(", in brick {brick}")), "{told}");
        assert_has(&told, &[&format!("likely cause: weight {weight} ")]);
    }
}

/// An infinite logit that the softcap makes a finite one: no tensor that is looked at is bad.
#[test]
fn what_the_next_kernel_hides_is_told() {
    let mut file = with_key("llama.final_logit_softcapping", 6, &30f32.to_le_bytes());
    let layout = Layout::of(&file);
    // One input of the head is as large as f32 has it, and one row of the head reads it with a weight of
    // tens: Q6_K, whose scale is the last two bytes of 210. An f16 1.0 is 0x3c00.
    let norm = layout.tensor("output_norm.weight").data_at + 4 * 71;
    patch(&mut file, norm, 1e38f32.to_le_bytes());
    let head = layout.tensor("output.weight").data_at;
    patch(&mut file, head + 210 * 5 + 208, [0x00, 0x3c]);
    with_file(&file, |path| {
        let output = apr(&[
            "run",
            "--prompt",
            "hello world",
            "--model",
            path.to_str().unwrap(),
        ]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_has(
            &told,
            &[
                "apr: stopped: brick `LmHead` broke its contract `logits: no_inf`\n",
                "\nrun again: brick `LmHead` broke its contract `logits: no_inf`\n",
                "\n  first at logits[5] = ",
                "\n  every tensor between the kernels was finite\nlikely cause: overflow: ",
            ],
        );
        assert!(!told.contains("a race"), "{told}");
    });
}

/// A token that only the continuation has: the prompt is fine, the position tells.
#[test]
fn a_fault_in_a_later_token_has_its_position() {
    let args = ["run", "--prompt", "hello world", "-n", "1", "--json"];
    let report: Value = serde_json::from_slice(&apr(&args).stdout).unwrap();
    let token = report["generated_ids"][0].as_u64().unwrap() as usize;
    let prompt = report["prompt_ids"].as_array().unwrap();
    assert!(!prompt.contains(&Value::from(token)));
    let file = support::open(&tiny_llama());
    let gguf = Gguf::parse(&file).unwrap();
    let embedding = gguf.tensor("token_embd.weight").unwrap();
    let row = embedding.matrix().unwrap().row(token).unwrap().len();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.json");
    let trace = [
        "-n",
        "4",
        "--trace-level",
        "layer",
        "--trace-output",
        path.to_str().unwrap(),
    ];
    // All ones: every scale and every value of the row is NaN, whatever the format.
    let nan = vec![0xff; row];
    let told = stopped("token_embd.weight", token * row, &nan, &trace);
    assert_has(
        &told,
        &[
            "step EMBED, position 3: embedding[",
            "weight token_embd.weight has a NaN or infinite scale in row ",
        ],
    );
    // What was traced until then is written, and says why it ends.
    let trace = json(&path);
    assert!(
        trace["stopped"]
            .as_str()
            .unwrap()
            .contains("step EMBED, position 3")
    );
    assert_eq!(trace["passes"], 2);
    let last = trace["tensors"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["pass"], &last["tensor"]),
        (&Value::from(0), &Value::from("logits"))
    );
}

/// Where kernels check nothing, the trace's own statistics stop the run at the same place.
#[test]
fn a_trace_stops_where_kernels_check_nothing() {
    let file = patched(|layout, bytes| {
        let norm = layout.tensor("blk.2.ffn_norm.weight");
        patch(bytes, norm.data_at + 4, f32::NAN.to_le_bytes());
    });
    let (found, again, violation) = with_file(&file, |path| {
        let mapping = support::open(path);
        let gguf = Gguf::parse(&mapping).unwrap();
        let model = Model::load(&gguf).unwrap();
        contract::set_policy(Policy::Record);
        let error = error_of(&model, &[1, 2, 3]);
        assert!(
            matches!(error.downcast_ref(), Some(ModelError::Halted(_))),
            "{error}"
        );
        let error = jidoka::diagnose(error, &model, &gguf, &[1, 2, 3]);
        let found = error.downcast::<Diagnosis>().unwrap().to_string();
        // The kernel's own contract, which stops where it is asked to.
        contract::set_policy(Policy::Handler(Arc::new(|violation| {
            resume_unwind(Box::new(violation.clone()))
        })));
        let feed = || Session::new(&model, 3).unwrap().feed(&[1, 2, 3]).map(drop);
        let unwound = catch_unwind(AssertUnwindSafe(feed)).unwrap_err();
        let violation = *unwound.downcast::<Violation>().unwrap();
        contract::set_policy(Policy::Record);
        // Other errors stay what they are.
        let other = jidoka::diagnose(ModelError::EmptyPrompt.into(), &model, &gguf, &[1]);
        assert!(other.is::<ModelError>());
        (found, error_of(&model, &[1, 2, 3]), violation)
    });
    assert!(
        found.starts_with("the tensor ffn_norm holds NaN or infinite values\n"),
        "{found}"
    );
    assert_has(
        &found,
        &["step FEED_FORWARD of layer 2, position 0: ffn_norm[1] = NaN"],
    );

    // The same error told of a sound model: nothing to be found there.
    let mapping = support::open(&tiny_llama());
    let gguf = Gguf::parse(&mapping).unwrap();
    let model = Model::load(&gguf).unwrap();
    let told = jidoka::diagnose(again, &model, &gguf, &[1, 2, 3]);
    let told = told.downcast::<Diagnosis>().unwrap();
    assert_eq!(told.brick(), None);
    assert_has(
        &told.to_string(),
        &["likely cause: the same 3 tokens, run again, gave finite numbers only: "],
    );
    // The brick that broke its contract is known all the same.
    let told = jidoka::diagnose(violation.into(), &model, &gguf, &[1, 2, 3]);
    assert_eq!(
        told.downcast::<Diagnosis>().unwrap().brick(),
        Some("ResidualNorm")
    );
}

/// The error of a traced run of `tokens`.
fn error_of(model: &Model<'_>, tokens: &[u32]) -> anyhow::Error {
    let asked = Level {
        level: TraceLevel::Layer,
        steps: StepFilter::ALL,
    };
    let mut collector = Collector::new(asked, None).unwrap();
    let mut session = Session::new(model, tokens.len()).unwrap();
    session.observe(&mut collector);
    session.feed(tokens).unwrap_err().into()
}

/// Finite and suspicious is a warning, with its threshold, and no stop.
#[test]
fn a_magnitude_beyond_f16_is_a_warning() {
    let file = patched(|layout, bytes| {
        let norm = layout.tensor("blk.1.attn_norm.weight");
        patch(bytes, norm.data_at + 4 * 3, 1e7f32.to_le_bytes());
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.json");
    with_file(&file, |model| {
        let model = ["--model", model.to_str().unwrap()];
        let output = ["--trace-output", path.to_str().unwrap()];
        for output in [&[][..], &output] {
            let run = [
                "run",
                "--prompt",
                "hello",
                "-n",
                "1",
                "--trace-level",
                "layer",
                // A cache of halves has no room for it: that stops, as it must.
                "--precision",
                "f32",
            ];
            let output = apr(&[&run[..], &model, output].concat());
            assert!(output.status.success());
            let told = String::from_utf8(output.stderr).unwrap();
            let line =
                "\nwarning: exploding: attn_norm of layer 1, position 0: the largest magnitude is ";
            assert_eq!(told.matches(line).count(), 1, "{told}");
            assert!(told.contains(", threshold 65504\n"), "{told}");
            let cached =
                "\nwarning: uncacheable: v of layer 1, position 0: the largest magnitude, ";
            assert_eq!(told.matches(cached).count(), 1, "{told}");
        }
    });
    let trace = json(&path);
    let first = &trace["warnings"][0];
    assert_eq!(
        (&first["kind"], &first["layer"]),
        (&"exploding".into(), &1.into())
    );
    assert!(first["value"].as_f64().unwrap() > 65504.0);
}

/// The warnings of a run of nine tokens of the tiny llama, changed so.
fn warned(change: impl FnOnce(&Layout, &mut Vec<u8>)) -> Vec<String> {
    let prompt = "hello world hello world hello world hello world";
    with_file(&patched(change), |model| {
        let model = ["--model", model.to_str().unwrap()];
        let run = [
            "run",
            "--prompt",
            prompt,
            "-n",
            "2",
            "--trace-level",
            "layer",
        ];
        let output = apr(&[&run[..], &model].concat());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{told}");
        let warnings = told
            .lines()
            .filter_map(|line| line.strip_prefix("warning: "));
        warnings.map(str::to_owned).collect()
    })
}

/// Scores ten thousand times as large: every head of that layer sees one position.
#[test]
fn attention_to_one_position_is_a_warning() {
    assert_eq!(warned(|_, _| ()), [""; 0]);
    let warnings = warned(|layout, bytes| {
        let norm = layout.tensor("blk.1.attn_norm.weight").data_at;
        for at in (norm..).step_by(4).take(256) {
            let weight = f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            patch(bytes, at, (1e2 * weight).to_le_bytes());
        }
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let line = "saturated: attn_heads of layer 1, position 8: the share of heads with 99.9 % of their weight on one position is 1.000, threshold 0.9";
    assert_eq!(warnings[0], line);
}

/// Values without weights: heads that pass nothing on.
#[test]
fn dead_heads_are_a_warning() {
    let warnings = warned(|layout, bytes| {
        let v = layout.tensor("blk.2.attn_v.weight").data_at;
        // Up to the next tensor.
        let after = layout
            .tensors
            .iter()
            .map(|t| t.data_at)
            .filter(|&at| at > v);
        let end = after.min().unwrap();
        bytes[v..end].fill(0);
    });
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let line = "dead: attn_heads of layer 2, position 0: the share of values below 1e-6 is 1.000, threshold 0.9";
    assert_eq!(warnings[0], line);
}
