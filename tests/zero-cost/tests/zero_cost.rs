//! With `visualization` off an annotated function is the function: the same assembly, optimised
//! and not, nothing of ours in the binary, and nothing but the macro crate below the runtime.

use std::collections::BTreeSet;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use zero_cost::{Product, Variant, build, cargo, normalised, sections};

fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn assembly(variant: Variant, release: bool) -> Vec<Vec<String>> {
    let file = build(target(), variant, release, Product::Assembly);
    sections(&std::fs::read_to_string(file).expect("assembly is text"))
}

/// The first function in which two builds differ, and in how many they do.
fn difference(bare: &[Vec<String>], other: &[Vec<String>]) -> Option<String> {
    let differing: Vec<_> = bare
        .iter()
        .filter(|section| !other.contains(section))
        .collect();
    let added: Vec<_> = other
        .iter()
        .filter(|section| !bare.contains(section))
        .collect();
    let show = |sections: &[&Vec<String>]| {
        sections
            .first()
            .map_or(String::new(), |lines| lines.join("\n"))
    };
    (bare != other).then(|| {
        let counts = format!(
            "{} functions differ, {} are other ones",
            differing.len(),
            added.len()
        );
        format!(
            "{counts}; the first:\n--- bare\n{}\n--- attributed\n{}",
            show(&differing),
            show(&added)
        )
    })
}

fn same_assembly(release: bool) {
    let bare = assembly(Variant::Bare, release);
    // All of the fixture is there to be compared.
    for function in [
        "axpy",
        "questions",
        "recursive",
        "sum_of",
        "track_caller",
        "awaits",
        "instances",
    ] {
        let is_there = bare
            .iter()
            .flatten()
            .any(|line| line.contains(function) && line.ends_with(':'));
        assert!(is_there, "{function} is not in the assembly");
    }
    if let Some(difference) = difference(&bare, &assembly(Variant::Off, release)) {
        panic!("an annotation left something behind: {difference}");
    }
    // The control: the comparison can see an annotation.
    let on = assembly(Variant::On, release);
    let difference = difference(&bare, &on).expect("with `visualization` on there is code of ours");
    assert!(
        on.iter()
            .flatten()
            .any(|line| line.contains("brick_runtime")),
        "{difference}"
    );
}

#[test]
fn optimised_assembly_is_the_same() {
    same_assembly(true);
}

#[test]
fn unoptimised_assembly_is_the_same() {
    same_assembly(false);
}

/// A program: functions and data by name, sections, size of what runs before main, all bytes.
struct Contents {
    symbols: BTreeSet<String>,
    sections: BTreeSet<String>,
    constructors: u64,
    bytes: Vec<u8>,
}

fn contents(variant: Variant, release: bool) -> Contents {
    let bytes = std::fs::read(build(target(), variant, release, Product::Binary))
        .expect("a binary to read");
    let file = object::File::parse(&*bytes).expect("an object file");
    let is_code_or_data =
        |kind| matches!(kind, SymbolKind::Text | SymbolKind::Data | SymbolKind::Tls);
    let symbols = file
        .symbols()
        .filter(|symbol| is_code_or_data(symbol.kind()));
    let names: Vec<&str> = symbols.filter_map(|symbol| symbol.name().ok()).collect();
    Contents {
        symbols: names.into_iter().map(normalised).collect(),
        sections: file
            .sections()
            .filter_map(|section| section.name().ok().map(str::to_owned))
            .collect(),
        constructors: file
            .section_by_name(".init_array")
            .map_or(0, |section| section.size()),
        bytes: bytes.clone(),
    }
}

fn is_ours(symbol: &&String) -> bool {
    ["brick_runtime", "BrickId", "put_bricks"]
        .iter()
        .any(|ours| symbol.contains(ours))
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

fn nothing_of_ours(release: bool) {
    let bare = contents(Variant::Bare, release);
    let off = contents(Variant::Off, release);
    assert_eq!(off.symbols.iter().find(is_ours), None);
    assert_eq!(off.symbols, bare.symbols);
    assert_eq!(off.sections, bare.sections);
    assert_eq!(
        off.constructors, bare.constructors,
        "something runs before main"
    );
    // The claim's text: fields with U+001F between them.
    let claim = "under_test\u{1f}Loop\u{1f}axpy\u{1f}";
    assert!(!holds(&off.bytes, claim), "the registry is in the binary");

    // The control: with the feature on all of it is found.
    let on = contents(Variant::On, release);
    assert!(on.symbols.iter().any(|name| is_ours(&name)));
    assert!(holds(&on.bytes, claim));
}

#[test]
fn nothing_of_ours_is_in_an_optimised_binary() {
    nothing_of_ours(true);
}

#[test]
fn nothing_of_ours_is_in_an_unoptimised_binary() {
    nothing_of_ours(false);
}

#[test]
fn off_depends_on_nothing_but_the_macros() {
    let tree = |arguments: &[&str]| {
        let output = cargo()
            .args([
                "tree", "--edges", "normal", "--prefix", "depth", "--format", " {p}",
            ])
            .args(arguments)
            .output()
            .expect("cargo starts");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).expect("names");
        // Depth and name; versions move, paths differ.
        let name = |line: &str| {
            line.split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ")
        };
        text.lines().map(name).collect::<Vec<_>>()
    };
    let expected: Vec<&str> = include_str!("../dependencies-off.txt").lines().collect();
    assert_eq!(tree(&[]), expected);
    // What the macro crate needs stays in the compiler.
    assert_eq!(tree(&["--edges", "normal,no-proc-macro"]), expected[..2]);
}
