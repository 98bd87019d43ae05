//! Random and randomly broken files: the reader and everything built on it refuse or accept them,
//! but never panic.
#![allow(missing_docs)]

mod support;

use apr::gguf::Gguf;
use apr::inspect::Report;
use apr::tokenizer::{EncodeOptions, Tokenizer};
use proptest::prelude::*;
use std::sync::LazyLock;
use support::tiny_llama;
use support::vocabularies::tiny_bpe;
use support::writer::Layout;

/// Everything that `apr` does with a file before it runs it. How far it got: 0, it could not be
/// read; 1, it has no tokenizer; 2, it could be used.
fn use_file(bytes: &[u8]) -> u32 {
    let Ok(gguf) = Gguf::parse(bytes) else {
        return 0;
    };
    let mut report = Report::new("ran\x1b[2Jdom\n.gguf", &gguf);
    report.check(&gguf);
    let shown = report.to_string();
    assert!(
        shown
            .lines()
            .all(|line| !line.contains(|c: char| c.is_control())),
        "{shown:?}"
    );
    serde_json::to_string(&report).unwrap();
    let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) else {
        return 1;
    };
    if let Ok(ids) = tokenizer.encode(b"hello <s> w\xc3\xb6rld\xff", EncodeOptions::default()) {
        tokenizer.decode(&ids).unwrap();
    }
    2
}

static LLAMA: LazyLock<(Vec<u8>, usize)> = LazyLock::new(|| {
    let bytes = std::fs::read(tiny_llama()).unwrap();
    let header = Layout::of(&bytes).header_end;
    (bytes, header)
});

static BPE: LazyLock<Vec<u8>> = LazyLock::new(|| tiny_bpe("llama-bpe").bytes());

/// Bytes, and numbers as they stand in headers: small, at the edges, huge.
fn replacement() -> impl Strategy<Value = Vec<u8>> {
    let edge = prop::sample::select(vec![
        0,
        1,
        2,
        31,
        32,
        255,
        1 << 31,
        1 << 32,
        1 << 63,
        u64::MAX,
    ]);
    prop_oneof![
        any::<u8>().prop_map(|b| vec![b]),
        edge.prop_map(|n: u64| n.to_le_bytes().to_vec()),
        (0..14u32).prop_map(|n| n.to_le_bytes().to_vec()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn noise(tail in proptest::collection::vec(any::<u8>(), 0..256)) {
        let version = 3u32.to_le_bytes();
        use_file(&tail);
        use_file(&[b"GGUF", &version[..], &tail].concat());
        // Counts that are plausible let the reader get further.
        let counts = [1u64, 2].map(u64::to_le_bytes).concat();
        use_file(&[b"GGUF", &version[..], &counts, &tail].concat());
    }

    #[test]
    fn broken_llama(
        changes in proptest::collection::vec((0.0..1.0f64, replacement()), 1..4),
    ) {
        let (bytes, header) = &*LLAMA;
        let mut bytes = bytes.clone();
        for (place, with) in changes {
            let at = (place * (header - 8) as f64) as usize;
            bytes[at..at + with.len()].copy_from_slice(&with);
        }
        use_file(&bytes);
    }

    #[test]
    fn broken_vocabulary(
        changes in proptest::collection::vec((0.0..1.0f64, replacement()), 1..4),
    ) {
        let mut bytes = BPE.clone();
        let end = (bytes.len() - 8) as f64;
        for (place, with) in changes {
            let at = (place * end) as usize;
            bytes[at..at + with.len()].copy_from_slice(&with);
        }
        use_file(&bytes);
    }
}

#[test]
fn unbroken_files_can_be_used() {
    assert_eq!(use_file(&LLAMA.0), 2);
    assert_eq!(use_file(&BPE), 2);
}
