//! `apr run --trace…` and `apr trace diff`, through the binary.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use support::refusal::{apr, assert_refused, patched, with_file};
use support::traced::{array, assert_numpy_agrees, diff, run, traced};
use support::writer::patch;
use support::{fetched, json, tiny};

#[test]
fn a_basic_trace_has_every_step_and_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let trace = traced(&dir.path().join("t.json"), "basic", &[]);
    assert_eq!(trace["schema"], "apr.trace/1");
    assert!(trace["stopped"].is_null());
    let mut count = BTreeMap::new();
    for step in array(&trace, "steps") {
        *count.entry(step["step"].as_str().unwrap()).or_insert(0) += 1;
        assert!(step["duration_ns"].as_u64().unwrap() > 0, "{step}");
    }
    // The prompt and three further passes over three layers; four tokens.
    let expected = [
        ("ATTENTION", 12),
        ("DECODE", 4),
        ("EMBED", 4),
        ("FEED_FORWARD", 12),
        ("LM_HEAD", 4),
        ("SAMPLE", 4),
        ("TOKENIZE", 1),
        ("TRANSFORMER_BLOCK", 12),
    ];
    assert_eq!(count, BTreeMap::from(expected));
    assert_eq!(trace["kernel_launch"]["provenance"], "unavailable");
    assert!(trace["kernel_launch"]["value"].is_null());
    let bricks = array(&trace["brick_profile"], "bricks");
    let head = bricks.iter().find(|b| b["brick"]["name"] == "LmHead");
    assert_eq!(head.unwrap()["calls"], 4);
    assert!(array(&trace, "tensors").is_empty());
    assert!(trace["payload"].is_null());
    // Steps do not overlap, and a block is longer than its parts together.
    let of = |name: &str, key: &str| -> Vec<u64> {
        let steps = array(&trace, "steps").iter().filter(|s| s["step"] == name);
        steps.map(|s| s[key].as_u64().unwrap()).collect()
    };
    let (blocks, starts) = (
        of("TRANSFORMER_BLOCK", "duration_ns"),
        of("TRANSFORMER_BLOCK", "start_ns"),
    );
    let (attention, ffn) = (
        of("ATTENTION", "duration_ns"),
        of("FEED_FORWARD", "duration_ns"),
    );
    for i in 0..blocks.len() {
        assert!(blocks[i] >= attention[i] + ffn[i]);
        assert!(i == 0 || starts[i] >= starts[i - 1] + blocks[i - 1]);
    }
    // What says which run this was.
    let identity = &trace["identity"];
    let sum = Command::new("sha256sum")
        .arg(support::tiny_llama())
        .output();
    if let Ok(sum) = sum {
        let sum = String::from_utf8(sum.stdout).unwrap();
        assert_eq!(identity["model"]["sha256"], sum.split(' ').next().unwrap());
    }
    assert_eq!(identity["model"]["architecture"], "llama");
    assert_eq!(identity["program"]["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(array(&trace["settings"], "prompt_ids").len(), 3);
    let cost = &trace["cost"];
    assert!(cost["self_ns"]["value"].as_f64().unwrap() > 0.0);
    assert_eq!(cost["share"]["provenance"], "derived");
}

/// What is chosen and told of steps is what the run says itself.
#[test]
fn tokens_and_texts_are_the_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.json");
    let output = run("4", &["--json", "--trace-output", path.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let trace = json(&path);
    let told = |step: &str, key: &str| -> Vec<Value> {
        let steps = array(&trace, "steps").iter();
        steps
            .filter(|s| s["step"] == step)
            .map(|s| s[key].clone())
            .collect()
    };
    assert_eq!(
        Value::Array(told("SAMPLE", "token")),
        report["generated_ids"]
    );
    let texts: Vec<Value> = told("DECODE", "text");
    let text: String = texts.iter().map(|t| t.as_str().unwrap()).collect();
    // What ends a text that was cut within a character is no step's.
    let whole = report["text"].as_str().unwrap();
    assert_eq!(text, whole.trim_end_matches('\u{fffd}'));
    assert_eq!(told("TOKENIZE", "n_tokens"), [Value::from(3)]);
}

#[test]
fn statistics_agree_with_numpy_on_the_values() {
    let dir = tempfile::tempdir().unwrap();
    for (name, nodes) in [("tiny-llama", 11), ("tiny-gemma3", 13)] {
        let path = dir.path().join(format!("{name}.json"));
        let model = tiny(name);
        let trace = traced(&path, "payload", &["--model", model.to_str().unwrap()]);
        let layers = array(&trace, "steps")
            .iter()
            .filter_map(|s| s["layer"].as_u64())
            .max();
        let layers = layers.unwrap() as usize + 1;
        let tensors = 4 * (nodes * layers + 3);
        assert_eq!(array(&trace, "tensors").len(), tensors, "{name}");
        assert_eq!(trace["payload"]["tensors"], tensors);
        assert_numpy_agrees(&path, tensors);
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

/// Few values are in the trace itself, exactly, and can be compared there.
#[test]
fn few_values_are_in_the_trace_itself() {
    let dir = tempfile::tempdir().unwrap();
    let [few, many] = ["few.json", "many.json"].map(|name| dir.path().join(name));
    let head = traced(&few, "payload", &["--trace-steps", "lm_head"]);
    assert_eq!(
        (&head["payload"]["file"], &head["payload"]["tensors"]),
        (&Value::Null, &8.into())
    );
    let values = |line: &Value| array(line, "values").len() as u64;
    let lines = array(&head, "tensors");
    assert_eq!(
        lines.iter().map(values).sum::<u64>() * 4,
        head["payload"]["bytes"].as_u64().unwrap()
    );
    assert!(head["limits"]["inline_bytes"].as_u64() > head["payload"]["bytes"].as_u64());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    assert_numpy_agrees(&few, 8);

    // The same as in a file, to the bit.
    let all = traced(&many, "payload", &[]);
    assert_eq!(all["payload"]["file"], "many.safetensors");
    let raw = std::fs::read(dir.path().join("many.safetensors")).unwrap();
    let header_len = u64::from_le_bytes(raw[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&raw[8..8 + header_len]).unwrap();
    for line in lines {
        let name = format!("pass{}.{}", line["pass"], line["tensor"].as_str().unwrap());
        let place = |end: usize| header[&name]["data_offsets"][end].as_u64().unwrap() as usize;
        let bytes = &raw[8 + header_len..][place(0)..place(1)];
        let inline = array(line, "values").iter();
        let inline: Vec<u8> = inline
            .flat_map(|v| (v.as_f64().unwrap() as f32).to_le_bytes())
            .collect();
        assert_eq!(inline, bytes, "{name}");
    }

    // One value, too small a change for the statistics; the first differs in none.
    let mut changed = head.clone();
    let value = &mut changed["tensors"][3]["values"][100];
    *value = (value.as_f64().unwrap() + 0.01).into();
    let other = dir.path().join("other.json");
    std::fs::write(&other, changed.to_string()).unwrap();
    let output = diff(&few, &other, &[]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("logits\n  value [100]: A "), "{told}");
    assert!(told.contains("\n8 tensors by every value, "), "{told}");
}

/// Beside a pipe lies no file: what fits is in the trace, the rest is counted.
#[test]
fn a_pipe_gets_the_values_that_fit() {
    let all = ["--trace-level", "payload", "--trace-output", "/dev/stdout"];
    let output = run("4", &all);
    let text = String::from_utf8(output.stdout).unwrap();
    let trace: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let dropped = trace["dropped"]["payload_tensors"].as_u64().unwrap();
    let kept = trace["payload"]["tensors"].as_u64().unwrap();
    assert!(
        kept > 0 && dropped > 0 && kept + dropped == 144,
        "{kept} {dropped}"
    );
    assert!(trace["payload"]["bytes"].as_u64() <= trace["limits"]["inline_bytes"].as_u64());
    let with_values = array(&trace, "tensors")
        .iter()
        .filter(|t| t["values"].is_array());
    assert_eq!(with_values.count() as u64, kept);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains(&format!("\ndropped: values of {dropped} tensors, ")),
        "{told}"
    );
}

#[test]
fn statistics_of_gemma_agree_with_numpy() {
    let Some(model) = fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gemma.json");
    let steps = ["--trace-steps", "attention,lm_head"];
    traced(
        &path,
        "payload",
        &[&["--model", model.to_str().unwrap()], &steps[..]].concat(),
    );
    assert_numpy_agrees(&path, 4 * (18 * 8 + 2));
}

#[test]
fn only_the_steps_asked_for_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.json");
    let trace = traced(&path, "layer", &["--trace-steps", "attention,sample"]);
    let names = |key: &str, name: &str| -> Vec<String> {
        let mut names: Vec<String> = array(&trace, key)
            .iter()
            .map(|line| line[name].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    assert_eq!(names("steps", "step"), ["ATTENTION", "SAMPLE"]);
    let expected = [
        "attn_heads",
        "attn_norm",
        "attn_out",
        "attn_residual",
        "k",
        "q",
        "v",
    ];
    assert_eq!(names("tensors", "tensor"), expected);
    assert!(trace["brick_profile"].is_null() && trace["kernel_launch"].is_null());
    assert_eq!(
        trace["settings"]["steps"],
        serde_json::json!(["ATTENTION", "SAMPLE"])
    );
}

#[test]
fn the_table_is_on_standard_error_and_the_text_alone_on_standard_output() {
    let plain = run("4", &[]);
    for options in [
        &["--trace"][..],
        &["--trace-level", "layer"],
        &[
            "--trace-level",
            "payload",
            "--trace-steps",
            "LM-HEAD,kernel_launch",
        ],
        &["--trace-steps", "brick_profile"],
    ] {
        let output = run("4", options);
        assert_eq!(output.stdout, plain.stdout, "{options:?}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("\ntrace: level "), "{told}");
        assert!(told.contains(" hooks took "), "{told}");
        assert!(!told.contains('\x1b'), "colour in a pipe");
        let has = |text: &str| told.contains(text);
        let option = options.join(" ");
        assert_eq!(
            has("\nLM_HEAD  "),
            !option.contains("brick_profile"),
            "{told}"
        );
        assert_eq!(
            has("tensors of pass 3:"),
            option.contains("-level"),
            "{told}"
        );
        assert_eq!(has("first 4 values"), option.contains("payload"), "{told}");
        assert_eq!(has("BRICK_PROFILE:"), !option.contains("LM-HEAD"), "{told}");
        assert_eq!(
            has("KERNEL_LAUNCH: unavailable: kernels ran on the CPU"),
            !option.contains("brick_profile"),
            "{told}"
        );
    }
    assert!(!String::from_utf8(plain.stderr).unwrap().contains("trace"));
    run("1", &["--trace-level", "none"]);
}

#[test]
fn mistakes_are_told() {
    for (options, told) in [
        (
            &["--trace-steps", "attention,smaple"][..],
            "no trace step is called \"smaple\"; there are TOKENIZE, EMBED, ",
        ),
        (
            &["--trace-level", "deep"],
            "no trace level is called \"deep\"; there are none, basic, layer, payload",
        ),
    ] {
        let output = apr(&[&["run", "--prompt", "a"][..], options].concat());
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains(told), "{stderr}");
    }
    for (options, told) in [
        (
            &["--trace", "--trace-level", "none"][..],
            "--trace-level none traces nothing",
        ),
        (
            &["--trace-output", "/no/such/folder/t.json"],
            "/no/such/folder/t.json: ",
        ),
        (
            &[
                "--trace-level",
                "payload",
                "--trace-output",
                "/no/such/folder/t.json",
            ],
            "/no/such/folder/t.json: ",
        ),
        (&["--trace-output", "/"], "/: is a directory"),
        (
            &["--trace-output", "t.safetensors"],
            "that name is for the values",
        ),
    ] {
        let output = apr(&[&["run", "--prompt", "a", "-n", "1"][..], options].concat());
        assert_refused(&output, told);
    }
}

#[test]
fn two_runs_of_the_same_agree_whatever_the_threads() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.json"), dir.path().join("b.json"));
    traced(&a, "layer", &["--threads", "1"]);
    traced(&b, "layer", &["--threads", "2"]);
    let output = diff(&a, &b, &["--tolerance", "0"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}");
    assert!(
        told.starts_with("the traces agree\n148 tensors and tokens compared, 0 differ\n"),
        "{told}"
    );
}

/// One value in the middle of a tensor: too small for the statistics, not for the values.
#[test]
fn values_are_compared_where_both_have_them() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.json"), dir.path().join("b.json"));
    let trace = traced(&a, "payload", &[]);
    traced(&b, "payload", &[]);
    let agree = String::from_utf8(diff(&a, &b, &[]).stdout).unwrap();
    assert!(agree.contains("\n144 tensors by every value, "), "{agree}");
    // Value 100 of the queries of layer 1 in the second pass, by the format's own rules.
    let values = b.with_extension("safetensors");
    let mut bytes = std::fs::read(&values).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let begin = header["pass1.layer1.q"]["data_offsets"][0]
        .as_u64()
        .unwrap() as usize;
    let at = 8 + header_len + begin + 4 * 100;
    let value = f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    bytes[at..at + 4].copy_from_slice(&(value + 0.1).to_le_bytes());
    std::fs::write(&values, &bytes).unwrap();
    let output = diff(&a, &b, &[]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.starts_with("the traces part at position 3, layer 1, q\n  value [100]: A "),
        "{told}"
    );
    assert!(
        told.contains("148 tensors and tokens compared, 1 differ\n"),
        "{told}"
    );
    assert_eq!(array(&trace, "tensors").len(), 144);

    std::fs::write(&values, &bytes[..header_len]).unwrap();
    assert_refused(
        &diff(&a, &b, &[]),
        "b.safetensors is no safetensors file of a trace",
    );
    std::fs::remove_file(&values).unwrap();
    assert_refused(&diff(&a, &b, &[]), "b.safetensors: ");
}

/// A fault in one layer's weights is found there, and nowhere before.
#[test]
fn the_first_layer_that_parts_is_found() {
    let bytes = patched(|layout, bytes| {
        let norm = layout.tensor("blk.1.ffn_norm.weight");
        let at = norm.data_at + 4 * 7;
        let weight = f32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        patch(bytes, at, (1.5 * weight).to_le_bytes());
    });
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.json"), dir.path().join("b.json"));
    traced(&a, "layer", &[]);
    with_file(&bytes, |path| {
        traced(&b, "layer", &["--model", path.to_str().unwrap()])
    });
    let output = diff(&a, &b, &[]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.starts_with("the traces part at position 0, layer 1, ffn_norm\n"),
        "{told}"
    );
    assert!(
        told.contains("\n  last the same: position 0, layer 1, attn_residual\n"),
        "{told}"
    );
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "apr: the traces part at position 0, layer 1, ffn_norm\n"
    );
    // A shorter run lacks entries, whichever side it is on.
    let short = dir.path().join("short.json");
    run(
        "2",
        &[
            "--trace-level",
            "layer",
            "--trace-output",
            short.to_str().unwrap(),
        ],
    );
    for (x, y, side) in [(&a, &short, "B"), (&short, &a, "A")] {
        let told = String::from_utf8(diff(x, y, &[]).stdout).unwrap();
        assert!(
            told.contains(&format!("\n  {side} has no such entry\n")),
            "{told}"
        );
    }
}

#[test]
fn what_is_no_trace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (a, basic) = (dir.path().join("a.json"), dir.path().join("basic.json"));
    traced(&a, "layer", &[]);
    traced(&basic, "basic", &[]);
    let other = dir.path().join("other.json");
    std::fs::write(&other, "{\"schema\": \"apr.run/1\"}").unwrap();
    for (b, told) in [
        (&basic, "record it with --trace-level layer"),
        (&other, "is no trace of schema apr.trace/1"),
        (&dir.path().join("none.json"), "No such file"),
    ] {
        assert_refused(&diff(&a, b, &[]), told);
    }
    assert_refused(
        &diff(&a, &a, &["--tolerance=-1"]),
        "--tolerance is -1, expected 0 or more",
    );
}
