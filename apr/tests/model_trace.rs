//! `apr trace`: attention, logit lens, KV cache and activations against numpy's forward pass
//! (`golden/tiny_insides.py`).
#![allow(missing_docs)]

mod support;

use apr::gguf::Gguf;
use apr::tokenizer::Tokenizer;
use serde_json::Value;
use support::model_trace::{list, near, trace};
use support::refusal::apr;
use support::{fetched, golden, json, tiny};

const MODELS: [&str; 4] = ["tiny-llama", "tiny-gemma3", "tiny-qwen2", "tiny-qwen3"];

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
                    "--precision",
                    "f32",
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

/// Layers × 2 × heads × elements × bytes of each position: tiny-llama has 3, 2 and 64. Halves, unless
/// f32 is asked for.
#[test]
fn the_cache_says_its_size() {
    let args = ["--kv", "--prompt", "hello world", "-n", "2", "--precision"];
    for (precision, bytes) in [("int8", 2), ("f32", 4)] {
        let kv = &trace(&tiny("tiny-llama"), &[&args[..], &[precision]].concat())["kv"];
        assert_eq!((&kv["positions"], &kv["capacity"]), (&4.into(), &5.into()));
        assert_eq!(kv["element_bytes"], bytes);
        assert_eq!(kv["used_bytes"], 4 * 3 * 2 * 2 * 64 * bytes);
        assert_eq!(kv["reserved_bytes"], 5 * 3 * 2 * 2 * 64 * bytes);
        assert_eq!(kv["layers"][2]["k_norm"]["rows"], 4 * 2);
    }
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
