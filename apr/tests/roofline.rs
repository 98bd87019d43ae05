//! `profile --roofline`: shares worked out again from the counts and ceilings in the same JSON.

#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use serde_json::Value;
use std::process::Command;

fn profile(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_apr"))
        .args(["profile", "--roofline", "-n", "3", "--warmup", "1"])
        .args(["--threads", "2"])
        .args(args)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// The roof and the share of it, by the definition: the lowest roof that is not exceeded.
fn expected(brick: &Value, roofs: &Value) -> Option<(&'static str, f64)> {
    let of = |rate: &str| roofs[rate]["value"].as_f64().unwrap();
    let count = |name: &str| brick[name].as_f64().filter(|&n| n > 0.0);
    let (flops, bytes) = (count("flops")?, count("bytes")?);
    let gflops = flops / brick["time"]["total_ns"].as_f64()?;
    let per_byte = flops / bytes;
    let memory = per_byte * of("memory_read_gb_per_s");
    let cache = per_byte * of("cache_read_gb_per_s");
    let compute = of("f32_gflop_per_s");
    let (roof, name) = if gflops <= memory {
        (memory, "memory")
    } else {
        (cache, "cache")
    };
    Some(match roof < compute {
        true => (name, gflops / roof),
        false => ("compute", gflops / compute),
    })
}

#[test]
fn each_brick_is_under_the_lowest_roof_that_it_is_not_above() {
    let report: Value = serde_json::from_str(&profile(&["--format", "json"])).unwrap();
    let roofs = report["machine"]["roofs"].as_array().unwrap();
    let threads: Vec<_> = roofs.iter().map(|roofs| &roofs["threads"]).collect();
    assert_eq!(threads, [1, 2]);
    for roofs in roofs {
        for rate in [
            "memory_read_gb_per_s",
            "cache_read_gb_per_s",
            "f32_gflop_per_s",
        ] {
            let rate = &roofs[rate];
            assert_eq!(rate["provenance"], "measured");
            assert!(rate["value"].as_f64().unwrap() > 0.0, "{rate}");
            assert!(rate["repeats"].as_u64().unwrap() > 2, "{rate}");
            let quartile = |n: usize| rate["quartiles"][n].as_f64().unwrap();
            assert!(quartile(0) <= quartile(1), "{rate}");
            assert!(quartile(1) <= rate["value"].as_f64().unwrap(), "{rate}");
        }
    }
    let mut known = 0;
    for phase in ["prefill", "decode"] {
        let phase = &report[phase];
        let rows = phase["roofline"].as_array().unwrap();
        let bricks = phase["bricks"]["bricks"].as_array().unwrap();
        assert_eq!(rows.len(), bricks.len());
        for brick in bricks {
            let name = &brick["brick"]["name"];
            let row = rows.iter().find(|row| row["brick"] == *name).unwrap();
            match expected(brick, &roofs[1]) {
                Some((roof, share)) => {
                    known += 1;
                    assert_eq!(row["roof"], roof, "{row}");
                    let near = |found: &Value, expected: f64| {
                        let found = found["value"].as_f64().unwrap();
                        assert!((found - expected).abs() < 1e-9 * share.max(1.0), "{row}");
                    };
                    near(&row["share_of_roof"], share);
                    near(&row["roofline_distance"], 1.0 - share);
                }
                None => {
                    assert_eq!(row["roof"], Value::Null);
                    let why = row["share_of_roof"]["why"].as_str().unwrap();
                    assert!(why.ends_with(" declared"), "{why}");
                }
            }
        }
    }
    assert!(known > 10, "{known}");
}

#[test]
fn people_and_graphs_are_told_too() {
    let dir = tempfile::tempdir().unwrap();
    let [text, dot] = ["step.txt", "step.dot"].map(|name| dir.path().join(name));
    let flags = [("graph", &text), ("dot", &dot)];
    let [text_flag, dot_flag] = flags.map(|(kind, file)| format!("{kind}={}", file.display()));
    let told = profile(&["--export", &text_flag, "--export", &dot_flag]);
    for part in [
        "\nwhat this machine can do (measured",
        "\nprefill under the roofs of 2 threads (derived",
        "\ndecode under the roofs of 2 threads (derived",
    ] {
        assert!(told.contains(part), "{told}");
    }
    let text = std::fs::read_to_string(text).unwrap();
    assert!(text.contains("\nceilings: memory "), "{text}");
    let kernels = text
        .lines()
        .filter(|line| line.ends_with("LmHead [kernel]"));
    let reached = |line: &&str| {
        ["memory", "cache", "compute"]
            .iter()
            .any(|roof| line.contains(roof))
    };
    assert!(kernels.filter(reached).count() > 0, "{text}");
    let Some(python) = oracles::python() else {
        return;
    };
    let read = oracles::answer(oracles::oracle(&python, "graph.py").arg("dot").arg(dot));
    let labels = read[0]["labels"].as_array().unwrap();
    let of_a_roof = |label: &&Value| label.as_str().unwrap().ends_with(" roof");
    assert!(labels.iter().filter(of_a_roof).count() > 10, "{labels:?}");
}
