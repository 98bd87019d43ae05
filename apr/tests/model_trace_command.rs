//! `apr trace` as a command: what it refuses, what it drops, what it writes and where.
#![allow(missing_docs)]

mod support;

use serde_json::Value;
use support::refusal::{apr, assert_refused, json_of, quiet_text_of};
use support::tiny;

/// The cells of the one row that starts with these.
fn row<'t>(text: &'t str, starts: &[&str]) -> Vec<&'t str> {
    let rows = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut found = rows.filter(|cells| cells.starts_with(starts));
    let row = found
        .next()
        .unwrap_or_else(|| panic!("no {starts:?} in {text}"));
    assert_eq!(found.next(), None, "{starts:?} twice in {text}");
    row
}

#[test]
fn mistakes_on_the_command_line() {
    for (args, expected) in [
        (
            &[][..],
            "--attention|--logits|--quant-error|--kv|--activations",
        ),
        (&["--kv", "--top-k", "3"], "--attention"),
        (&["--kv", "--recent", "3"], "--attention"),
        (&["--attention", "--recent", "0"], "--recent"),
        (&["--kv", "--tokens", "a"], "--logits"),
        (&["--kv", "--reference", "f"], "--quant-error"),
        (&["--kv", "--max-tokens", "0"], "--max-tokens"),
        (&["--kv", "--cap-mib", "-1"], "-1"),
    ] {
        let output = apr(&[&["trace"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
    }
}

#[test]
fn what_cannot_be_traced_is_refused_in_one_line() {
    let refused = |args: &[&str], expected: &str| {
        assert_refused(&apr(&[&["trace"], args].concat()), expected);
    };
    refused(
        &["--logits", "--tokens", "hello world"],
        r#"--tokens: no token is "hello world", which the tokenizer makes 2 tokens of: " hello" " world""#,
    );
    refused(&["--kv", "--prompt", ""], "the prompt is empty");
    refused(&["--kv", "-n", "1000"], "the model's context is 256 tokens");
    let reference = |path: &str, expected: &str| {
        refused(&["--quant-error", "--reference", path], expected);
    };
    reference("/nowhere/at/all.gguf", "/nowhere/at/all.gguf");
    let other = tiny("tiny-qwen2");
    reference(
        other.to_str().unwrap(),
        "is a qwen2 model, and the model a llama",
    );
}

/// No room at all: nothing is recorded, all of it is counted, and the tables say so.
#[test]
fn what_does_not_fit_the_cap_is_dropped_and_counted() {
    let args = [
        "trace",
        "--attention",
        "--quant-error",
        "--activations",
        "-n",
        "2",
        "--cap-mib",
        "0",
        "--prompt",
        "hello world",
    ];
    let found = json_of(&[&args[..], &["--format", "json"]].concat());
    assert_eq!(found["memory"]["cap_bytes"], 0);
    assert_eq!(found["memory"]["used_bytes"], 0);
    // The rounding of activations, each tensor (3 + 3 × 11 of a pass), and each pass.
    assert_eq!(found["memory"]["dropped_records"], 1 + 2 * (3 + 3 * 11) + 2);
    assert_eq!(found["passes"], Value::Array(Vec::new()));
    assert_eq!(found["activations"], Value::Array(Vec::new()));
    assert!(found["quant_error"]["activations"].is_null());
    let text = quiet_text_of(&args);
    assert!(text.contains("75 records dropped"), "{text}");
    assert!(
        text.contains("Activations: unavailable: no memory"),
        "{text}"
    );
}

/// A cap in the middle of a run: its start is there and whole.
#[test]
fn a_trace_ends_at_the_cap() {
    let args = [
        "trace",
        "--activations",
        "--attention",
        "--top-k",
        "64",
        "-n",
        "180",
        "--prompt",
        "hello",
        "--format",
        "json",
        "--cap-mib",
    ];
    let found = |cap| json_of(&[&args[..], &[cap]].concat());
    let (whole, cut) = (found("64"), found("1"));
    assert_eq!(whole["memory"]["dropped_records"], 0);
    assert!(whole["memory"]["used_bytes"].as_u64().unwrap() > 1 << 20);
    assert!(cut["memory"]["dropped_records"].as_u64().unwrap() > 0);
    assert!(cut["memory"]["used_bytes"].as_u64().unwrap() <= 1 << 20);
    for part in ["passes", "activations"] {
        let (whole, cut) = (
            whole[part].as_array().unwrap(),
            cut[part].as_array().unwrap(),
        );
        assert!(cut.len() < whole.len() && !cut.is_empty(), "{part}");
        assert_eq!(cut[..], whole[..cut.len()], "{part}");
    }
}

#[test]
fn what_was_not_asked_for_is_not_there() {
    let found = json_of(&["trace", "--kv", "--format", "json", "-n", "1"]);
    for part in ["attention", "quant_error", "activations"] {
        assert!(found.get(part).is_none(), "{part}");
    }
    let pass = &found["passes"][0];
    assert!(pass.get("attention").is_none() && pass.get("logits").is_none());
    for (figure, provenance) in [
        ("run_ms", "measured"),
        ("trace_ms", "measured"),
        ("trace_share", "derived"),
    ] {
        assert_eq!(found["cost"][figure]["provenance"], provenance);
    }
    assert!(!quiet_text_of(&["trace", "--kv", "-n", "1"]).contains("Attention"));
}

/// The tables hold what the JSON does.
#[test]
fn tables_for_people() {
    let args = [
        "trace",
        "--attention",
        "--top-k",
        "2",
        "--recent",
        "2",
        "--logits",
        "--tokens",
        "a",
        "--quant-error",
        "--kv",
        "--activations",
        "-n",
        "2",
        "--prompt",
        "hello world",
    ];
    let text = quiet_text_of(&args);
    let json = json_of(&[&args[..], &["--format", "json"]].concat());
    assert!(
        text.starts_with("model    built-in tiny-llama (random weights), architecture llama\n")
    );

    let pass = &json["passes"][1];
    let head = &pass["attention"][2]["heads"][1];
    let cells = row(&text, &["2", "1", "4"]);
    let percent = |v: &Value| format!("{:.1}", 100.0 * v.as_f64().unwrap());
    assert_eq!(
        cells[3],
        format!("{:.3}", head["entropy_nats"].as_f64().unwrap())
    );
    assert_eq!(cells[4], percent(&head["sink_share"]));
    assert_eq!(cells[6], percent(&head["recent_share"]));
    assert_eq!(cells[8], percent(&head["tail_mass"]));
    assert_eq!(cells[10], head["top"][0]["position"].to_string());

    let own = &pass["logits"][0];
    let cells = row(&text, &["3", r#""X""#]);
    let end = own["layers"][2]["logit"].as_f64().unwrap();
    assert_eq!(cells[2..], [&format!("{end:.4}")[..], "1", "2"]);
    assert_eq!(row(&text, &["3", r#""a""#])[4], "never");
    let first = &own["layers"][0];
    let cells = row(
        &text,
        &["0", &format!("{:.4}", first["logit"].as_f64().unwrap())],
    );
    assert_eq!(cells[2], format!("#{}", first["rank"]));

    let input = &json["quant_error"]["activations"]["inputs"][0];
    let cells = row(
        &text,
        &["1", "ffn_inner", "256", "ffn_down", "Q6_K", "Q8_K"],
    );
    let snr = input["formats"][1]["error"]["snr_db"]["value"]
        .as_f64()
        .unwrap();
    assert_eq!(cells[6], format!("{snr:.2}"));
    assert!(
        text.contains("weights: unavailable: needs --reference"),
        "{text}"
    );

    let norm = json["kv"]["layers"][1]["k_norm"]["mean"].as_f64().unwrap();
    let cells = row(&text, &["1", "all", "4"]);
    assert_eq!(cells[3], format!("{norm:.4}"));
    assert_eq!(row(&text, &["q", "6"])[6..], ["0", "0"]);
    assert_eq!(
        row(&text, &["layer", "2", "4"]).len(),
        7,
        "rounding by layer"
    );
    assert!(text.ends_with("; 0 records dropped\n"), "{text}");
}

/// Complete or absent, and nothing beside it.
#[test]
fn a_file_for_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trace.json");
    let path = path.to_str().unwrap();
    let args = ["trace", "--kv", "--format", "json", "-n", "1", "--output"];
    let output = apr(&[&args[..], &[path]].concat());
    assert!(output.status.success() && output.stdout.is_empty());
    let written: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(written["schema"], "apr.model-trace/1");
    assert_eq!(written["identity"]["model"]["architecture"], "llama");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);

    let nowhere = dir.path().join("no/such/place.json");
    let nowhere = nowhere.to_str().unwrap();
    assert_refused(&apr(&[&args[..], &[nowhere]].concat()), nowhere);
    // A folder can't be replaced by a file: what was written beside is gone again.
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    assert_refused(
        &apr(&[&args[..], &[folder.to_str().unwrap()]].concat()),
        "folder",
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}
