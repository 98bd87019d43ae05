//! `apr trace --quant-error` against figures made here: rounding by its formula, references whose
//! distance from the model is known.
#![allow(missing_docs)]

mod support;

use apr::gguf::Gguf;
use apr::model::{Halt, Model, Node, Observer, Session, Tensor, View};
use brick_kernels::quant::Activations;
use serde_json::Value;
use std::path::Path;
use support::model_trace::{list, near, trace};
use support::refusal::{apr, patched_file};
use support::writer::{Layout, Writer, patch};
use support::{fetched, tiny};

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
    let rounded = trace(&tiny("tiny-llama"), &args);
    let found = trace(
        &tiny("tiny-llama"),
        &[&args[..], &["--precision", "f32"]].concat(),
    );
    let weights = &found["quant_error"]["weights"];
    // The same numbers in another format: what they compute differs by rounding at most.
    let drift = &found["quant_error"]["drift"];
    assert_eq!(drift["position"], list(&found["prompt_ids"]).len() - 1);
    assert_eq!(list(&drift["tensors"]).len(), 3 + 3 * 11);
    for tensor in list(&drift["tensors"]) {
        near(&tensor["max_abs"]["value"], &0.0.into(), 1e-4);
        near(&tensor["cosine"]["value"], &1.0.into(), 1e-9);
    }
    // Of the rounded activations, which the reference does not have, that much is left to see.
    for tensor in list(&rounded["quant_error"]["drift"]["tensors"]) {
        near(&tensor["max_abs"]["value"], &0.0.into(), 0.2);
        near(&tensor["cosine"]["value"], &1.0.into(), 1e-3);
    }
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

/// Keeps the last row of one tensor.
struct Row(Node, Option<usize>, Vec<f32>);

impl Observer for Row {
    fn tensor(&mut self, tensor: &Tensor<'_>, _: &View<'_>) -> Result<(), Halt> {
        if (tensor.node, tensor.at.layer) == (self.0, self.1) {
            self.2 = tensor.data[tensor.data.len() - tensor.width()..].to_vec();
        }
        Ok(())
    }
}

/// Figures made here, of rows taken from two sessions.
#[test]
fn drift_is_the_distance_of_two_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reference.gguf");
    std::fs::write(&path, reference(&tiny("tiny-llama"), 1.0 / 512.0)).unwrap();
    let args = [
        "--quant-error",
        "-n",
        "1",
        "--prompt",
        "hello world",
        "--reference",
        path.to_str().unwrap(),
    ];
    let found = trace(&tiny("tiny-llama"), &args);
    let drift = list(&found["quant_error"]["drift"]["tensors"]);
    for (node, layer) in [(Node::AttnHeads, Some(1)), (Node::Logits, None)] {
        let row = |path: &Path, activations| {
            let file = support::open(path);
            let gguf = Gguf::parse(&file).unwrap();
            let model = Model::load(&gguf).unwrap();
            let model = model.with_activations(activations);
            let mut row = Row(node, layer, Vec::new());
            let mut session = Session::new(&model, 8).unwrap();
            session.observe(&mut row);
            session.feed(&[1, 337, 344]).unwrap();
            drop(session);
            row.2
        };
        let x = row(&path, Activations::F32);
        let y = row(&tiny("tiny-llama"), Activations::Rounded);
        let (mut noise, mut signal) = (0.0, 0.0);
        for (&x, &y) in x.iter().zip(&y) {
            noise += (f64::from(x) - f64::from(y)).powi(2);
            signal += f64::from(x).powi(2);
        }
        let is_ours = |t: &&Value| {
            t["tensor"] == node.name() && t["layer"].as_u64() == layer.map(|l| l as u64)
        };
        let error = drift.iter().find(is_ours).unwrap();
        let snr = 10.0 * (signal / noise).log10();
        assert!(snr < 60.0, "the reference is another model: {snr} dB");
        near(&error["snr_db"]["value"], &snr.into(), 1e-9);
    }
    let snr = |tensor: &Value| tensor["snr_db"]["value"].as_f64().unwrap_or(f64::INFINITY);
    assert!(drift.is_sorted_by_key(snr), "the worst first");
    let text = apr(&[&["trace"], &args[..]].concat()).stdout;
    let text = String::from_utf8(text).unwrap();
    let heading = "Drift of the activations at position 2 from the reference's";
    let (_, table) = text.split_once(heading).unwrap();
    let worst: Vec<&str> = table.lines().nth(2).unwrap().split_whitespace().collect();
    assert_eq!(worst[1], drift[0]["tensor"].as_str().unwrap());
    assert_eq!(worst[2], format!("{:.2}", snr(&drift[0])));

    // A reference that is quantised itself is none for activations.
    let own = tiny("tiny-llama");
    let args = [
        "--quant-error",
        "-n",
        "1",
        "--reference",
        own.to_str().unwrap(),
    ];
    let drift = &trace(&own, &args)["quant_error"]["drift"];
    assert!(drift["tensors"].is_null());
    let why = "the reference has tensors that are not F32, F16 or BF16";
    assert_eq!(drift["why"], why);
}

/// Which of the two models it was is told with the diagnosis.
#[test]
fn a_reference_with_a_nan_is_diagnosed() {
    let mut bytes = reference(&tiny("tiny-llama"), 0.0);
    let at = Layout::of(&bytes).tensor("blk.1.ffn_norm.weight").data_at;
    patch(&mut bytes, at + 4 * 7, f32::NAN.to_le_bytes());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("reference.gguf");
    std::fs::write(&path, bytes).unwrap();
    let path = path.to_str().unwrap();
    let output = apr(&["trace", "--quant-error", "-n", "1", "--reference", path]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    let first = format!(
        "apr: stopped: --reference {path}: brick `ResidualNorm` broke its contract `out: no_nan`\n"
    );
    assert!(told.starts_with(&first), "{told}");
    let cause = "likely cause: weight blk.1.ffn_norm.weight holds a NaN or infinite value in row 0, element 7\n";
    assert!(told.ends_with(cause), "{told}");
}
