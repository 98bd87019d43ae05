//! `traceparent` against the specification's examples and against OpenTelemetry's own parser.
#![allow(missing_docs)]

#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use brick_runtime::span::{TraceContext, TraceparentError};
use std::io::Write;
use std::process::Stdio;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn parse(text: &str) -> Result<TraceContext, TraceparentError> {
    text.parse()
}

/// The examples of <https://www.w3.org/TR/trace-context/#examples-of-http-traceparent-headers>.
#[test]
fn the_examples_of_the_specification() {
    for (flags, sampled) in [("01", true), ("00", false)] {
        let text = format!("00-{TRACE}-{SPAN}-{flags}");
        let context = parse(&text).unwrap();
        assert_eq!(context.trace_id.to_string(), TRACE);
        assert_eq!(context.span_id.to_string(), SPAN);
        assert_eq!(context.flags.sampled(), sampled);
        assert_eq!(context.to_string(), text);
    }
}

#[test]
fn what_is_refused_and_why() {
    use TraceparentError::{Digit, Form, SpanId, TraceId, Version};
    let zeros = "0".repeat(32);
    for (text, error) in [
        (String::new(), Form),
        (format!("00-{TRACE}-{SPAN}"), Form),
        (format!("00-{TRACE}-{SPAN}-0"), Form),
        (format!("00-{TRACE}-{SPAN}-001"), Form),
        (format!("00-{TRACE}-{SPAN}-01-"), Form),
        (format!("00-{TRACE}-{SPAN}-01-more"), Form),
        (format!("000-{TRACE}-{SPAN}-01"), Form),
        (format!("cc-{TRACE}-{SPAN}-01.more"), Form),
        (format!("00_{TRACE}-{SPAN}-01"), Form),
        (format!("ff-{TRACE}-{SPAN}-01"), Version),
        (format!("0.-{TRACE}-{SPAN}-01"), Digit { at: 1 }),
        (
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            Digit { at: 4 },
        ),
        (format!("00-{TRACE}-{SPAN}-0G"), Digit { at: 54 }),
        (format!("00-{zeros}-{SPAN}-01"), TraceId),
        (format!("00-{TRACE}-0000000000000000-01"), SpanId),
        // 55 bytes, but not 55 characters.
        (
            format!("00-{TRACE}-00f067aa0ba902\u{e4}-01"),
            Digit { at: 50 },
        ),
    ] {
        assert_eq!(parse(&text), Err(error), "{text:?}");
    }
}

/// §4.3 "Versioning of traceparent": read as 00, sent on as 00, flags unknown but for `sampled`.
#[test]
fn versions_to_come() {
    for rest in ["", "-", "-what-the-future-will-be-like"] {
        let context = parse(&format!("cc-{TRACE}-{SPAN}-ff{rest}")).unwrap();
        assert_eq!(context.to_string(), format!("00-{TRACE}-{SPAN}-01"));
    }
    // Of version 00, Level 2 knows two flags; the others must not be sent on.
    let context = parse(&format!("\t 00-{TRACE}-{SPAN}-ff ")).unwrap();
    assert_eq!(context.to_string(), format!("00-{TRACE}-{SPAN}-03"));
}

/// A generator of its own, so that every run has the same cases: Knuth's MMIX constants.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Well-formed ones with up to three bytes changed, dropped, doubled or cut off.
fn cases() -> Vec<String> {
    let mut random = Random(1);
    let bytes = b"0123456789abcdefABF-g. \t";
    let case = |_| {
        let version = ["00", "00", "01", "cc", "ff", "fe"][random.below(6)];
        let rest = ["", "", "", "-", "-a-b", ".a"][random.below(6)];
        let mut text = format!("{version}-{TRACE}-{SPAN}-01{rest}").into_bytes();
        for _ in 0..random.below(4) {
            let at = random.below(text.len());
            match random.below(5) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, text[at]),
                2 => text.truncate(at.max(8)),
                _ => text[at] = bytes[random.below(bytes.len())],
            }
        }
        String::from_utf8(text).unwrap()
    };
    let mut cases: Vec<String> = (0..4000).map(case).collect();
    cases.push(format!("00-{}-{SPAN}-01", "0".repeat(32)));
    cases.push(format!("00-{TRACE}-{}-01", "0".repeat(16)));
    cases
}

#[test]
fn as_opentelemetry_reads_them() {
    let Some(python) = oracles::python() else {
        return;
    };
    let cases = cases();
    let mut child = oracles::oracle(&python, "traceparent.py")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = cases.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let theirs = String::from_utf8(output.stdout).unwrap();
    let theirs: Vec<&str> = theirs.lines().collect();
    assert_eq!(theirs.len(), cases.len());
    let mut valid = 0;
    for (text, theirs) in cases.iter().zip(theirs) {
        let ours = parse(text).map(|c| format!("{} {}", c.trace_id, c.span_id));
        // Their flags keep bits that the specification says to drop: ours are tested above.
        let theirs = theirs.rsplit_once(' ').map(|(ids, _)| ids.to_owned());
        assert_eq!(ours.as_ref().ok(), theirs.as_ref(), "{text:?}");
        valid += usize::from(ours.is_ok());
    }
    assert!(
        (500..3500).contains(&valid),
        "{valid} of {} valid: the cases show little",
        cases.len()
    );
}
