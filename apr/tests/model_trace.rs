//! `apr trace`: attention, logit lens, KV cache and activations against numpy's forward pass
//! (`golden/tiny_insides.py`), quantisation errors against figures made here.
#![allow(missing_docs)]

mod support;

use apr::gguf::Gguf;
use apr::model::{Halt, Model, Node, Observer, Session, Tensor, View};
use apr::tokenizer::Tokenizer;
use serde_json::Value;
use std::path::Path;
use support::refusal::{apr, patched_file};
use support::writer::{Layout, Writer, patch};
use support::{fetched, golden, json, tiny};

const MODELS: [&str; 4] = ["tiny-llama", "tiny-gemma3", "tiny-qwen2", "tiny-qwen3"];

fn trace(model: &Path, args: &[&str]) -> Value {
    let model = model.to_str().unwrap();
    let args = [&["trace", "--format", "json", "--model", model], args].concat();
    let output = apr(&args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

#[track_caller]
fn near(found: &Value, expected: &Value, tolerance: f64) {
    let (f, e) = (found.as_f64(), expected.as_f64());
    let (f, e) = (f.expect("a number"), e.expect("a number"));
    assert!((f - e).abs() <= tolerance, "{f}, expected {e}");
}

/// Each golden prompt of each model, traced.
fn for_each_golden(check: impl Fn(&Value, &Value)) {
    let all = json(&golden("tiny_insides.json"));
    let (top, recent) = (all["top"].to_string(), all["recent"].to_string());
    for name in MODELS {
        let file = support::open(&tiny(name));
        let tokenizer = Tokenizer::from_gguf(&Gguf::parse(&file).unwrap()).unwrap();
        let text = |id: &Value| {
            let bytes = tokenizer.decode(&[id.as_u64().unwrap() as u32]).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        for expected in list(&all[name]) {
            let prompt: String = list(&expected["prompt_tokens"])[1..]
                .iter()
                .map(text)
                .collect();
            let followed = list(&expected["lens"])[1..]
                .iter()
                .map(|l| text(&l["token"]));
            let followed = followed.collect::<Vec<_>>().join(",");
            let found = trace(
                &tiny(name),
                &[
                    "--attention",
                    "--top-k",
                    &top,
                    "--recent",
                    &recent,
                    "--logits",
                    "--tokens",
                    &followed,
                    "--kv",
                    "--activations",
                    "--prompt",
                    prompt.trim_start(),
                    "-n",
                    "1",
                ],
            );
            println!("{name} {}", expected["prompt"]);
            assert_eq!(found["schema"], "apr.model-trace/1");
            assert_eq!(found["prompt_ids"], expected["prompt_tokens"]);
            assert_eq!(found["generated_ids"][0], expected["chosen"]);
            assert_eq!(found["memory"]["dropped_records"], 0);
            check(&found, expected);
        }
    }
}

#[test]
fn attention_is_numpys() {
    for_each_golden(|found, expected| {
        let layers = list(&found["passes"][0]["attention"]);
        let expected = list(&expected["layers"]);
        assert_eq!(layers.len(), expected.len());
        for (found, expected) in layers.iter().zip(expected) {
            assert_eq!(found["window"], expected["window"]);
            let (heads, expected) = (list(&found["heads"]), list(&expected["attention"]));
            assert_eq!(heads.len(), expected.len());
            for (head, expected) in heads.iter().zip(expected) {
                assert_eq!(head["positions"], expected["positions"]);
                for name in ["entropy_nats", "tail_mass", "recent_share"] {
                    near(&head[name], &expected[name], 2e-5);
                }
                match &expected["sink_share"] {
                    Value::Null => assert!(head["sink_share"].is_null(), "{head}"),
                    share => near(&head["sink_share"], share, 1e-5),
                }
                let (top, expected) = (list(&head["top"]), list(&expected["top"]));
                assert_eq!(top.len(), expected.len());
                for (top, expected) in top.iter().zip(expected) {
                    assert_eq!(top["position"], expected[0]);
                    near(&top["weight"], &expected[1], 1e-5);
                }
            }
        }
    });
}

#[test]
fn logits_by_layer_are_numpys() {
    for_each_golden(|found, expected| {
        let tokens = list(&found["passes"][0]["logits"]);
        let expected = list(&expected["lens"]);
        assert_eq!(tokens.len(), expected.len());
        for (found, expected) in tokens.iter().zip(expected) {
            assert_eq!(found["token"], expected["token"]);
            assert_eq!(found["deciding_layer"], expected["deciding_layer"]);
            let layers = list(&found["layers"]);
            assert_eq!(layers.len(), list(&expected["ranks"]).len());
            for (layer, after) in layers.iter().enumerate() {
                assert_eq!(after["rank"], expected["ranks"][layer], "layer {layer}");
                near(&after["logit"], &expected["logits"][layer], 1e-3);
            }
        }
    });
}

#[test]
fn the_cache_and_the_stream_are_numpys() {
    for_each_golden(|found, expected| {
        let n = list(&expected["prompt_tokens"]).len();
        let kv = &found["kv"];
        assert_eq!(kv["positions"], n);
        assert_eq!(kv["capacity"], n + 1);
        let outputs = list(&found["activations"]).iter();
        let outputs = outputs.filter(|a| a["tensor"] == "layer_output");
        let outputs: Vec<&Value> = outputs.collect();
        let expected = list(&expected["layers"]);
        assert_eq!(list(&kv["layers"]).len(), expected.len());
        assert_eq!(outputs.len(), expected.len());
        for (layer, expected) in expected.iter().enumerate() {
            let held = &kv["layers"][layer];
            assert_eq!(held["window"], expected["window"]);
            let window = expected["window"].as_u64().map_or(n, |w| w as usize - 1);
            assert_eq!(held["visible"], n.min(window));
            for which in ["k", "v"] {
                let (norms, expected) = (
                    &held[format!("{which}_norm")],
                    &expected[format!("{which}_norms")],
                );
                for (i, name) in ["mean", "min", "max"].into_iter().enumerate() {
                    near(&norms[name], &expected[i], 1e-4);
                }
            }
            let output = outputs[layer];
            assert_eq!(
                (&output["layer"], &output["positions"]),
                (&layer.into(), &n.into())
            );
            for (i, name) in ["min", "max", "mean", "std"].into_iter().enumerate() {
                near(&output[name], &expected["output"][i], 2e-4);
            }
        }
    });
}

/// Layers × 2 × heads × elements × 4 bytes for each position: tiny-llama has 3, 2 and 64.
#[test]
fn the_cache_says_its_size() {
    let kv = &trace(
        &tiny("tiny-llama"),
        &["--kv", "--prompt", "hello world", "-n", "2"],
    )["kv"];
    assert_eq!((&kv["positions"], &kv["capacity"]), (&4.into(), &5.into()));
    assert_eq!(kv["used_bytes"], 4 * 3 * 2 * 2 * 64 * 4);
    assert_eq!(kv["reserved_bytes"], 5 * 3 * 2 * 2 * 64 * 4);
    assert_eq!(kv["layers"][2]["k_norm"]["rows"], 4 * 2);
}

/// Every pass has its record, the last layer's lens is the model itself, and what is traced is what
/// `apr run` does.
#[test]
fn each_pass_is_recorded() {
    let args = ["--prompt", "hello world", "-n", "3"];
    let found = trace(
        &tiny("tiny-llama"),
        &[&["--logits", "--attention"], &args[..]].concat(),
    );
    let run = apr(&[&["run", "--json"], &args[..]].concat());
    let run: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(found["generated_ids"], run["generated_ids"]);
    let passes = list(&found["passes"]);
    assert_eq!(passes.len(), 3);
    for (i, pass) in passes.iter().enumerate() {
        assert_eq!(pass["position"], 2 + i);
        assert_eq!(pass["chosen"], run["generated_ids"][i]);
        assert_eq!(pass["attention"][0]["heads"][0]["positions"], 3 + i);
        let own = &pass["logits"][0];
        assert_eq!(own["token"], pass["chosen"]);
        assert_eq!(own["layers"][2]["rank"], 1, "greedy takes the first");
    }
    let top = apr(&[
        "run",
        "--json",
        "--prompt",
        "hello world",
        "-n",
        "0",
        "--top-logits",
        "1",
    ]);
    let top: Value = serde_json::from_slice(&top.stdout).unwrap();
    let ours = &passes[0]["logits"][0]["layers"][2]["logit"];
    assert_eq!(ours, &top["top_logits"][0]["logit"]);
}

/// A prompt that is fed in two batches: what is recorded is its last position.
#[test]
fn of_a_long_prompt_the_last_batch_counts() {
    let Some(model) = fetched("SmolLM2-135M-Instruct.Q4_1.gguf") else {
        return;
    };
    let prompt = "one two three four five ".repeat(120);
    let args = [
        "--attention",
        "--activations",
        "-n",
        "1",
        "--prompt",
        &prompt,
    ];
    let found = trace(&model, &args);
    let n = list(&found["prompt_ids"]).len();
    assert!((513..1024).contains(&n), "{n} tokens are not two batches");
    let pass = &found["passes"][0];
    assert_eq!(
        (&pass["position"], list(&pass["attention"]).len()),
        (&(n - 1).into(), 30)
    );
    for layer in list(&pass["attention"]) {
        assert_eq!(layer["heads"][0]["positions"], n);
    }
    let batches = list(&found["activations"]).iter();
    let batches = batches.filter(|a| a["tensor"] == "q" && a["layer"] == 0);
    let batches: Vec<_> = batches
        .map(|a| (&a["first_position"], &a["positions"]))
        .collect();
    assert_eq!(
        batches,
        [(&0.into(), &512.into()), (&512.into(), &(n - 512).into())]
    );
}

/// Keeps the input of one matrix product.
struct Inner(Vec<f32>);

impl Observer for Inner {
    fn tensor(&mut self, tensor: &Tensor<'_>, _: &View<'_>) -> Result<(), Halt> {
        if tensor.node == Node::FfnInner && tensor.at.layer == Some(1) {
            self.0.extend_from_slice(tensor.data);
        }
        Ok(())
    }
}

/// Q8_K as its definition reads (`x ≈ d q`, `d = max / -127`), on activations taken from a session.
#[test]
fn rounding_costs_what_the_formula_says() {
    let file = support::open(&tiny("tiny-llama"));
    let gguf = Gguf::parse(&file).unwrap();
    let model = Model::load(&gguf).unwrap();
    let mut inner = Inner(Vec::new());
    let mut session = Session::new(&model, 8).unwrap();
    session.observe(&mut inner);
    session.feed(&[1, 337, 344]).unwrap();
    drop(session);
    let (mut noise, mut signal, mut worst) = (0.0, 0.0, 0.0f64);
    for block in inner.0.chunks_exact(256) {
        let max = block
            .iter()
            .fold(0.0f32, |m, &v| if v.abs() > m.abs() { v } else { m });
        let scale = -127.0 / max;
        for &x in block {
            let off =
                f64::from(x) - f64::from((scale * x).round_ties_even().min(127.0) * (1.0 / scale));
            noise += off * off;
            worst = worst.max(off.abs());
            signal += f64::from(x) * f64::from(x);
        }
    }
    let found = trace(
        &tiny("tiny-llama"),
        &["--quant-error", "--prompt", "hello world", "-n", "1"],
    );
    let inputs = list(&found["quant_error"]["activations"]["inputs"]);
    assert_eq!(inputs.len(), 3 * 4 + 1);
    let is_ours = |i: &&Value| i["tensor"] == "ffn_inner" && i["layer"] == 1;
    let input = inputs.iter().find(is_ours).unwrap();
    assert_eq!(
        (&input["ranked_by"], &input["width"]),
        (&"Q8_K".into(), &256.into())
    );
    let readers =
        serde_json::json!([{"weights": "ffn_down.weight", "format": "Q6_K", "takes": "Q8_K"}]);
    assert_eq!(input["read_by"], readers);
    let error = &input["formats"][1]["error"];
    assert_eq!(
        (&error["compared"], &error["not_finite"]),
        (&inner.0.len().into(), &0.into())
    );
    let n = inner.0.len() as f64;
    near(
        &error["mse"]["value"],
        &(noise / n).into(),
        1e-9 * noise / n,
    );
    near(&error["max_abs"]["value"], &worst.into(), 1e-9);
    near(
        &error["snr_db"]["value"],
        &(10.0 * (signal / noise).log10()).into(),
        1e-9,
    );
    assert_eq!(error["mse"]["provenance"], "derived");

    let snr = |input: &Value| {
        let formats = list(&input["formats"]);
        let by = formats
            .iter()
            .find(|f| f["format"] == input["ranked_by"])
            .unwrap();
        by["error"]["snr_db"]["value"].as_f64().unwrap()
    };
    assert!(inputs.is_sorted_by_key(snr), "the worst first");
}

/// 576 is not whole blocks of 256.
#[test]
fn a_width_that_does_not_fit_is_unavailable() {
    let Some(model) = fetched("SmolLM2-135M-Instruct.Q4_1.gguf") else {
        return;
    };
    let found = trace(&model, &["--quant-error", "-n", "1", "--prompt", "hello"]);
    let inputs = list(&found["quant_error"]["activations"]["inputs"]);
    let narrow = inputs.iter().find(|i| i["width"] == 576).unwrap();
    let q8_k = &narrow["formats"][1];
    assert!(q8_k["error"].is_null(), "{q8_k}");
    assert_eq!(
        q8_k["unavailable"],
        "a width of 576 is not whole blocks of 256"
    );
}

/// A GGUF file with the same metadata and tensors, all of them F32 and `off` larger.
fn reference(path: &Path, off: f32) -> Vec<u8> {
    let file = support::open(path);
    let gguf = Gguf::parse(&file).unwrap();
    let layout = Layout::of(&file);
    let mut writer = Writer::new();
    for (key, ty, at) in &layout.metadata {
        writer = writer.kv(key, *ty, &file[at.clone()]);
    }
    for tensor in gguf.tensors() {
        let matrix = tensor.matrix().unwrap();
        let offset = writer.data.len() as u64;
        writer = writer.tensor(tensor.name(), tensor.dims(), 0, offset);
        let mut row = vec![0.0; matrix.cols()];
        for index in 0..matrix.rows() {
            matrix.dequantise_row(index, &mut row).unwrap();
            writer
                .data
                .extend(row.iter().flat_map(|v| (v + off).to_le_bytes()));
        }
        let padded = writer.data.len().next_multiple_of(32);
        writer.data.resize(padded, 0);
    }
    writer.bytes()
}

/// All weights 1/64 off: the error is known without looking at the model.
#[test]
fn weights_are_compared_with_a_reference() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reference.gguf");
    std::fs::write(&path, reference(&tiny("tiny-llama"), 1.0 / 64.0)).unwrap();
    let args = [
        "--quant-error",
        "-n",
        "1",
        "--reference",
        path.to_str().unwrap(),
    ];
    let weights = &trace(&tiny("tiny-llama"), &args)["quant_error"]["weights"];
    assert_eq!(weights["reference"], path.to_str().unwrap());
    let tensors = list(&weights["tensors"]);
    assert_eq!(
        (tensors.len(), list(&weights["not_compared"]).len()),
        (30, 0)
    );
    for tensor in tensors {
        // What is off is rounded to f32: to 2⁻²⁵ at 1.
        near(&tensor["max_abs"]["value"], &(1.0 / 64.0).into(), 1e-6);
        near(&tensor["mse"]["value"], &(1.0f64 / 4096.0).into(), 1e-8);
        assert_eq!(tensor["reference_format"], "F32");
        assert_eq!(tensor["not_finite"], 0);
    }
    let snr = |tensor: &Value| tensor["snr_db"]["value"].as_f64().unwrap();
    assert!(tensors.is_sorted_by_key(snr), "the worst first");
    let embedding = tensors
        .iter()
        .find(|t| t["name"] == "token_embd.weight")
        .unwrap();
    assert!(embedding["layer"].is_null());
    assert_eq!(embedding["compared"], 256 * 384);

    let formats = list(&weights["by_format"]);
    let compared =
        |groups: &[Value]| -> u64 { groups.iter().map(|g| g["compared"].as_u64().unwrap()).sum() };
    assert_eq!(compared(formats), compared(tensors));
    let q6_k = formats.iter().find(|f| f["group"] == "Q6_K").unwrap();
    assert_eq!(q6_k["tensors"], 5);
    let layers = list(&weights["by_layer"]);
    assert_eq!((layers.len(), compared(layers)), (4, compared(tensors)));
}

#[test]
fn weights_equal_to_their_reference_are_exact() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reference.gguf");
    std::fs::write(&path, reference(&tiny("tiny-llama"), 0.0)).unwrap();
    let args = [
        "--quant-error",
        "-n",
        "1",
        "--reference",
        path.to_str().unwrap(),
    ];
    let weights = &trace(&tiny("tiny-llama"), &args)["quant_error"]["weights"];
    for tensor in list(&weights["tensors"]) {
        assert_eq!(tensor["mse"]["value"], 0.0);
        assert!(tensor["snr_db"]["value"].is_null());
        assert_eq!(tensor["snr_db"]["why"], "exact: there is no noise");
    }
}

/// The model as its own reference: only what is in full precision can be compared. And a tensor that
/// the reference does not have.
#[test]
fn what_cannot_be_compared_says_why() {
    let found = trace(&tiny("tiny-llama"), &["--quant-error", "-n", "1"]);
    let weights = &found["quant_error"]["weights"];
    assert!(weights["tensors"].is_null());
    let why = weights["why"].as_str().unwrap();
    assert!(why.starts_with("needs --reference"), "{why}");

    let renamed = patched_file(&tiny("tiny-llama"), |layout, bytes| {
        let at = layout.tensor("output_norm.weight").name_at + 8;
        patch(bytes, at, b"?");
    });
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reference.gguf");
    std::fs::write(&path, renamed).unwrap();
    let args = [
        "--quant-error",
        "-n",
        "1",
        "--reference",
        path.to_str().unwrap(),
    ];
    let weights = &trace(&tiny("tiny-llama"), &args)["quant_error"]["weights"];
    let whys = list(&weights["not_compared"]).iter();
    let whys: Vec<&str> = whys.map(|n| n["why"].as_str().unwrap()).collect();
    assert!(whys.contains(&"the reference's is Q4_K itself"), "{whys:?}");
    assert!(
        whys.contains(&"the reference has no such tensor"),
        "{whys:?}"
    );
    let compared = list(&weights["tensors"]);
    assert_eq!(compared.len() + whys.len(), 30);
    let full = |t: &Value| t["format"] == "F32" || t["format"] == "F16";
    assert!(compared.iter().all(full), "{compared:?}");
}
