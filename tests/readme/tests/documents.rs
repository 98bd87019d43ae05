//! Every command that README.md and CONTRIBUTING.md show does what they show.

use std::fs;
use std::path::{Path, PathBuf};

use readme::check::Checker;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// In one test: the later commands build on what the earlier ones built.
#[test]
fn commands_do_what_the_documents_show() {
    let mut checker = Checker::new(&root()).unwrap();
    let mut failures = Vec::new();
    for path in ["README.md", "CONTRIBUTING.md"] {
        let outcome = checker.check(path).unwrap();
        println!("{path}: {} commands run", outcome.commands);
        outcome
            .skipped
            .iter()
            .for_each(|skipped| println!("skipped {skipped}"));
        failures.extend(outcome.failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The first column of the table under a heading of README.md, without backquotes.
fn first_column(readme: &str, heading: &str) -> Vec<String> {
    let (_, section) = readme.split_once(heading).unwrap();
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    rows.skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|row| row.split('|').nth(1).unwrap().trim().replace('`', ""))
        .collect()
}

/// What the macro accepts, read from its source, is what the README explains.
#[test]
fn the_table_of_arguments_is_complete() {
    let source = read("brick-macros/src/args.rs");
    let (_, list) = source.split_once("const NAMES").unwrap();
    let (_, list) = list.split_once("= [").unwrap();
    let (list, _) = list.split_once("];").unwrap();
    let mut accepted: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    let explained = first_column(&read("README.md"), "## The arguments of");
    let mut explained: Vec<&str> = explained
        .iter()
        .map(|name| name.trim_end_matches("(…)"))
        .collect();
    accepted.sort_unstable();
    explained.sort_unstable();
    explained.dedup();
    assert!(accepted.contains(&"budget_us"), "{accepted:?}");
    assert_eq!(explained, accepted);
}

/// The features of the library, read from its manifest, are those that the README explains.
#[test]
fn the_table_of_features_is_complete() {
    let manifest = read("brick-runtime/Cargo.toml");
    let (_, list) = manifest.split_once("[features]\n").unwrap();
    let (list, _) = list.split_once("\n[").unwrap();
    let mut declared: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name))
        .filter(|name| *name != "default")
        .collect();
    let readme = read("README.md");
    let (_, section) = readme.split_once("## Features").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let mut explained: Vec<&str> = section
        .lines()
        .filter_map(|row| row.strip_prefix("| `brick-runtime` | `")?.split('`').next())
        .collect();
    declared.sort_unstable();
    explained.sort_unstable();
    assert!(declared.contains(&"visualization"), "{declared:?}");
    assert_eq!(explained, declared);
}
