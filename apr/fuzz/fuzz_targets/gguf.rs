//! Arbitrary bytes as a file: reader, report and tokenizer refuse or accept, and never panic.
#![no_main]

use apr::gguf::Gguf;
use apr::inspect::Report;
use apr::tokenizer::{EncodeOptions, Tokenizer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(gguf) = Gguf::parse(bytes) else { return };
    let mut report = Report::new("fuzz", &gguf);
    report.check(&gguf);
    // A report is safe to print: one line is one line, and nothing steers the terminal.
    let shown = report.to_string();
    assert!(
        shown
            .lines()
            .all(|line| !line.contains(|c: char| c.is_control()))
    );
    serde_json::to_string(&report).expect("a report is JSON");
    let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) else {
        return;
    };
    if let Ok(ids) = tokenizer.encode(b"hello <s>\xff", EncodeOptions::default()) {
        tokenizer.decode(&ids).expect("encode gives known ids");
    }
});
