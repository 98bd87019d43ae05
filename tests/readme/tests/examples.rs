//! Every example prints what its doc comment shows.

use std::fs;
use std::path::Path;

use readme::check::Checker;

#[test]
fn examples_print_what_they_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap();
    let mut checker = Checker::new(&root).unwrap();
    let mut names: Vec<String> = fs::read_dir(root.join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| {
            root.join("examples")
                .join(name)
                .join("src/main.rs")
                .exists()
        })
        .collect();
    names.sort();
    let mut failures = Vec::new();
    for name in &names {
        let outcome = checker
            .check(&format!("examples/{name}/src/main.rs"))
            .unwrap();
        if outcome.commands == 0 {
            failures.push(format!("examples/{name}: its doc comment shows no run"));
        }
        failures.extend(outcome.failures);
    }
    assert!(names.len() >= 7, "only {names:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
