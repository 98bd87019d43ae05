//! Every command that README.md and CONTRIBUTING.md show does what they show.

use std::path::Path;

use readme::check::Checker;

/// In one test: the later commands build on what the earlier ones built.
#[test]
fn commands_do_what_the_documents_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let mut checker = Checker::new(&root).unwrap();
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
