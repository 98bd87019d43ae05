//! What the registry knows of a brick.

use brick_runtime::{BrickInfo, Budget, brick};

use crate::BrickId;

/// Scores of one head:
/// `q · k`.
///
/// More to read.
#[brick(
    id = Information,
    category = "Attention scores",
    budget_us = 12.5,
    requires = q.len()   ==
        k.len(),
    assert(return = ["no_nan", "range(-1e3, 1e3)"]),
)]
fn attention_score(q: &[f32], k: &[f32]) -> f32 {
    q.iter().zip(k).map(|(q, k)| q * k).sum()
}

#[test]
fn everything_that_was_written_is_there() {
    attention_score(&[1.0], &[1.0]);
    let info = BrickId::Information.info();
    assert_eq!(info.name, "Information");
    assert_eq!(info.crate_name, "attribute");
    assert_eq!(info.module, "attribute::information");
    assert_eq!(info.function, "attention_score");
    assert_eq!(info.category, "Attention scores");
    assert_eq!(info.budget, Budget::Fixed { ns: 12_500 });
    assert_eq!(info.doc, "Scores of one head: `q · k`.");
    assert!(
        file!().ends_with(info.file) || info.file == file!(),
        "{}",
        info.file
    );
    let source = include_str!("information.rs");
    let line = source
        .lines()
        .position(|line| line.starts_with("fn attention_score"))
        .unwrap()
        + 1;
    assert_eq!(info.line as usize, line);
    let checks: Vec<&str> = info.checks.iter().collect();
    assert_eq!(
        checks,
        [
            "requires q.len() == k.len()",
            "return: no_nan, range(-1000, 1000)"
        ]
    );
}

#[test]
fn the_wire_id_is_fnv_1a_of_crate_and_name() {
    // `attribute::Information` by the reference implementation's C loop, in 64 bits.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in b"attribute::Information" {
        hash ^= u64::from(*byte);
        hash = hash.wrapping_mul(0x100_0000_01b3);
    }
    assert_eq!(BrickId::Information.info().wire_id, hash);
}

#[test]
fn names_and_ids_convert() {
    assert_eq!("Information".parse(), Ok(BrickId::Information));
    assert_eq!(BrickId::Information.to_string(), "Information");
    assert_eq!(
        format!("{:>13}|{:?}", BrickId::Information, BrickId::Information),
        "  Information|Information"
    );
    let error = "Informaton".parse::<BrickId>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "no brick is called `Informaton`; did you mean `Information`?"
    );
    assert_eq!(
        "".parse::<BrickId>().unwrap_err().to_string(),
        "no brick is called ``"
    );
    assert_eq!(
        BrickId::ALL[BrickId::Information.index()],
        BrickId::Information
    );
    let _: &'static BrickInfo = BrickId::Information.info();
}

#[cfg(feature = "serde")]
#[test]
fn ids_are_strings_to_serde() {
    let json = serde_json::to_string(&BrickId::Information).unwrap();
    assert_eq!(json, "\"Information\"");
    assert_eq!(
        serde_json::from_str::<BrickId>(&json).unwrap(),
        BrickId::Information
    );
    let error = serde_json::from_str::<BrickId>("\"Informatio\"")
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean `Information`?"), "{error}");
}
