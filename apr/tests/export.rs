//! `--export` and `profile --by path` on the built-in model, read back by other parsers.

#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

fn apr(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_apr"))
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// What tests/oracles/`oracle` reads in `file`; `None` where there is no Python.
fn read_back(oracle: &str, file: &Path) -> Option<Value> {
    let python = oracles::plain_python()?;
    Some(oracles::answer(oracles::oracle(&python, oracle).arg(file)))
}

fn flag(kind: &str, file: &Path) -> String {
    format!("{kind}={}", file.display())
}

#[test]
fn a_run_is_written_for_other_programs() {
    let dir = tempfile::tempdir().unwrap();
    let [chrome, folded, svg] =
        ["run.json", "run.folded", "run.svg"].map(|name| dir.path().join(name));
    let plain = apr(&["run", "--prompt", "hello", "-n", "3"]);
    let output = apr(&[
        "run",
        "--prompt",
        "hello",
        "-n",
        "3",
        "--export",
        &flag("chrome", &chrome),
        "--export",
        &flag("folded", &folded),
        "--export",
        &flag("flamegraph", &svg),
    ]);
    assert_eq!(output.stdout, plain.stdout);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("0 dropped (measured)"), "{told}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 3);

    // Three tokens: the prompt's pass and two more, through each of the layers.
    let folded = std::fs::read_to_string(folded).unwrap();
    let deep = "request;decode;step;token;layer;feed forward;DownProjection ";
    assert!(
        folded.lines().any(|line| line.starts_with(deep)),
        "{folded}"
    );
    let (Some(chrome), Some(svg)) = (
        read_back("trace_events.py", &chrome),
        read_back("flamegraph.py", &svg),
    ) else {
        return;
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut folded_ns: u64 = 0;
    for slice in chrome["slices"].as_array().unwrap() {
        *counts.entry(slice[3].as_str().unwrap()).or_default() += 1;
    }
    for line in folded.lines().filter(|line| line.starts_with("request")) {
        folded_ns += line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap();
    }
    let layers = counts
        .keys()
        .filter(|name| name.starts_with("layer "))
        .count();
    assert_eq!((counts["request"], counts["step"]), (1, 3));
    assert_eq!(counts["DownProjection"], 3 * layers);
    assert_eq!(counts["LmHead"], 3);
    // The request covers all that is folded, but what other threads did, which is at the root.
    let request = &chrome["slices"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s[3] == "request")
        .unwrap();
    assert_eq!(
        request[2].as_u64().unwrap() - request[1].as_u64().unwrap(),
        folded_ns
    );
    assert!(svg["frames"].as_array().unwrap().len() > 10);
}

/// One kernel in two places; and what is recorded is what was counted.
#[test]
fn profile_tells_a_kernel_apart_by_what_it_is_in() {
    let output = apr(&[
        "profile", "--by", "path", "--format", "json", "-n", "4", "--warmup", "1",
    ]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (phase, below) in [("prefill", "prefill"), ("decode", "decode;step")] {
        let phase = &report[phase];
        let paths = phase["paths"].as_array().unwrap();
        let at = |path: String| {
            paths
                .iter()
                .find(|row| row["path"] == path.as_str())
                .cloned()
        };
        let norm = |place: &str| at(format!("{below};{place};RmsNorm")).unwrap()["count"].as_u64();
        let in_layers = norm("token;layer;attention");
        assert_eq!(in_layers, norm("head").map(|calls| 3 * calls));
        let mut own: BTreeMap<&str, f64> = BTreeMap::new();
        for row in paths {
            let name = row["path"].as_str().unwrap().rsplit(';').next().unwrap();
            *own.entry(name).or_default() += row["self_ns"]["value"].as_f64().unwrap();
        }
        let bricks = phase["bricks"]["bricks"].as_array().unwrap();
        assert!(bricks.len() > 5);
        for brick in bricks {
            let name = brick["brick"]["name"].as_str().unwrap();
            let counted = brick["self_ns"].as_f64().unwrap();
            let calls = brick["calls"].as_f64().unwrap();
            // Events are whole nanoseconds, and the clock's rate is measured anew.
            let off = (own[name] - counted).abs();
            assert!(
                off <= 3.0 * calls + 1e-3 * counted,
                "{name}: {} and {counted}",
                own[name]
            );
        }
    }
    let output = apr(&["profile", "--by", "path", "-n", "2", "--warmup", "1"]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("\ndecode by path ("), "{table}");
}

/// The last step: one pass, on one thread, so that all of it is one chain.
#[test]
fn a_steps_graph_is_its_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let [dot, text] = ["step.dot", "step.txt"].map(|name| dir.path().join(name));
    apr(&[
        "run",
        "--prompt",
        "hello",
        "-n",
        "3",
        "--threads",
        "1",
        "--export",
        &flag("dot", &dot),
        "--export",
        &flag("graph", &text),
    ]);
    let text = std::fs::read_to_string(text).unwrap();
    assert!(text.starts_with("apr run built-in"), "{text}");
    let dot_text = std::fs::read_to_string(&dot).unwrap();
    let (comment, rest) = dot_text.split_once('\n').unwrap();
    assert!(comment.ends_with(": its last step"), "{comment}");
    assert!(rest.starts_with("digraph "), "{rest}");
    let Some(python) = oracles::python() else {
        return;
    };
    let read = oracles::answer(oracles::oracle(&python, "graph.py").arg("dot").arg(&dot));
    let graph = &read[0];
    let slack = graph["slack"].as_array().unwrap();
    assert!(
        slack.len() > 30 && slack.iter().all(|ns| ns == 0),
        "{slack:?}"
    );
    let length = format!(
        "critical path {:.3} µs",
        graph["length"].as_f64().unwrap() / 1e3
    );
    assert!(text.contains(&length), "{text}");
}

#[test]
fn what_cannot_be_written_is_told_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let refuse = |exports: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_apr"));
        command.args(["run", "--prompt", "x"]);
        for export in exports {
            command.args(["--export", export]);
        }
        let output = command.output().unwrap();
        assert!(output.stdout.is_empty());
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, told) = refuse(&["svg=x"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("no kind \"svg\"; there are chrome"), "{told}");
    let (code, told) = refuse(&[&flag("chrome", &dir.path().join("not/there"))]);
    assert_eq!((code, told.lines().count()), (Some(1), 1), "{told}");
    assert!(told.starts_with("apr: cannot write "), "{told}");
    let (code, told) = refuse(&[&flag("folded", dir.path())]);
    assert_eq!(code, Some(1), "{told}");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}
