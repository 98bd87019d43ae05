//! `apr doctor` as people and programs meet it.
#![allow(missing_docs)]
#![cfg(feature = "visualization")]

use serde_json::Value;
use std::process::Command;

fn doctor(args: &[&str]) -> String {
    let mut apr = Command::new(env!("CARGO_BIN_EXE_apr"));
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
