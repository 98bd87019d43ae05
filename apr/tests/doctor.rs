//! `apr doctor` as people and programs meet it.
#![allow(missing_docs)]
#![cfg(feature = "visualization")]

use serde_json::Value;
use std::process::Command;

fn doctor(args: &[&str]) -> String {
    doctor_with(None, args)
}

/// With `BRICK_KERNELS` set so, or not at all.
fn doctor_with(kernels: Option<&str>, args: &[&str]) -> String {
    let mut apr = Command::new(env!("CARGO_BIN_EXE_apr"));
    apr.env_remove("BRICK_KERNELS");
    apr.envs(kernels.map(|kernels| ("BRICK_KERNELS", kernels)));
    let output = apr.arg("doctor").args(args).output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stderr, b"");
    String::from_utf8(output.stdout).unwrap()
}

/// What the kernel and the C library say, not what our code reads.
fn told(command: &str, args: &[&str]) -> String {
    let output = Command::new(command).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn json_says_of_each_backend_what_it_costs_or_what_is_wrong() {
    let report: Value = serde_json::from_str(&doctor(&["--format", "json"])).unwrap();
    assert_eq!(report["schema"], "apr.doctor/1");
    assert_eq!(report["kernel"], told("uname", &["-r"]));
    assert_eq!(report["cores"].to_string(), told("nproc", &[]));
    assert_eq!(report["ns_per_hook"]["provenance"], "measured");
    let backends = report["backends"].as_array().unwrap();
    let names: Vec<_> = backends
        .iter()
        .map(|b| b["backend"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["perf", "ptrace", "cpu"]);
    for backend in backends {
        let works = backend["problem"].is_null();
        assert_eq!(
            backend["session_ns"]["value"].is_number(),
            works,
            "{backend}"
        );
        // The one without system calls adds to none.
        let adds = works && backend["backend"] != "cpu";
        assert_eq!(backend["added_ns"]["value"].is_number(), adds, "{backend}");
        assert!(
            works
                || backend["problem"]["why"]
                    .as_str()
                    .is_some_and(|why| !why.is_empty())
        );
    }
    assert!(backends[2]["problem"].is_null());
}

#[test]
fn text_has_a_row_for_each_backend_and_names_the_best() {
    let text = doctor(&[]);
    for name in ["perf", "ptrace", "cpu"] {
        let mut rows = text
            .lines()
            .skip_while(|line| !line.starts_with("backend "));
        let row = rows.find(|line| line.starts_with(name)).unwrap();
        assert!(row.contains("available"), "{row}");
    }
    assert_eq!(
        text.matches("unavailable").count(),
        text.matches("why: ").count(),
        "{text}"
    );
    assert!(text.contains("traced calls are observed with "), "{text}");
    assert!(!text.contains('\u{1b}'));
}

/// The system's list of what the CPU has.
fn cpu_has(flag: &str) -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = text.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|word| word == flag))
}

#[test]
fn the_kernels_are_those_that_were_asked_for() {
    let report = |kernels| -> Value {
        let text = doctor_with(Some(kernels), &["--format", "json"]);
        serde_json::from_str::<Value>(&text).unwrap()["kernels"].clone()
    };
    let tiles = |report: &Value| report["tiles"]["int8_tokens"].as_u64().unwrap();
    let portable = report("portable");
    assert_eq!(portable["instruction_set"], "portable");
    assert_eq!(portable["activations"], "int8");
    if cpu_has("avx2") && cpu_has("fma") && cpu_has("f16c") {
        let avx2 = report("avx2");
        assert_eq!(avx2["instruction_set"], "avx2");
        assert!(tiles(&avx2) > tiles(&portable));
    }
    assert_eq!(report("f32")["activations"], "f32");

    let unknown = report("avx3");
    assert!(unknown["instruction_set"].is_null() && unknown["tiles"].is_null());
    let why = "BRICK_KERNELS is avx3: expected ";
    assert!(unknown["problem"].as_str().unwrap().starts_with(why));
    assert!(doctor_with(Some("avx3"), &[]).contains(&format!("kernels   n/a ({why}")));
}

#[test]
fn amx_is_not_used_for_a_reason_that_the_machine_bears_out() {
    let report: Value = serde_json::from_str(&doctor(&["--format", "json"])).unwrap();
    let amx = &report["amx"];
    let why = amx["not_used"].as_str().unwrap();
    assert_eq!(
        amx["features"]["tile"].as_bool().unwrap(),
        !why.contains("AMX-TILE")
    );
    // The system shows its flag only where it saves tiles too.
    assert_eq!(cpu_has("amx_tile"), amx["refused"].is_null(), "{amx}");
    assert_eq!(amx["palette"].is_null(), amx["record"].is_null());
    assert!(doctor(&[]).contains(&format!("\namx       not used: {why}\n")));
}
