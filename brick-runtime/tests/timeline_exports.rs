//! What a timeline writes for other programs, read back by Python's parsers.

mod events;
#[path = "../../tests/oracles/mod.rs"]
mod oracles;

use std::io::Write;

use brick_runtime::timeline::{Event, EventKind, Timeline};
use brick_runtime::{BrickInfo, Figure};
use events::event;
use serde_json::Value;

static GEMV: BrickInfo = BrickInfo::new("Gemv", "kernels::gemv", "gemv", "src/gemv.rs", 7);
/// What no format likes.
static ODD: BrickInfo = BrickInfo::new(r#"a;b<c>&"d'\"#, "kernels", "odd\t\u{1}", "a\\b.rs", 1);

/// On threads of which the first has a name, and the first two a number.
fn timeline(events: Vec<Event>) -> Timeline {
    let mut timeline = Timeline {
        dropped: 3,
        ns_per_event: Figure::Measured(80.5),
        ..events::timeline(events)
    };
    for (number, thread) in timeline.threads.iter_mut().enumerate() {
        thread.name = (number == 0).then(|| "main \"1\"".into());
        thread.os_id = (number < 2).then_some(42);
    }
    timeline
}

/// A request of two tokens, whose gemv is called by attention and by the network after it.
fn request() -> Timeline {
    use EventKind::{Brick, Layer, Span, Token};
    timeline(vec![
        event(Span("request"), 0, (0, 10_000), None),
        event(Token(0), 0, (100, 5_100), Some(0)),
        event(Layer(0), 0, (200, 5_000), Some(1)),
        event(Span("attention"), 0, (300, 2_300), Some(2)),
        event(Brick(&GEMV), 0, (400, 2_000), Some(3)),
        event(Span("ffn"), 0, (2_300, 4_900), Some(2)),
        event(Brick(&GEMV), 0, (2_400, 4_900), Some(5)),
        event(Token(1), 0, (6_000, 9_000), Some(0)),
        event(Layer(1), 0, (6_000, 9_000), Some(7)),
        event(Span("attention"), 0, (6_100, 8_100), Some(8)),
        event(Brick(&GEMV), 0, (6_100, 8_100), Some(9)),
        event(Brick(&ODD), 1, (500, 1_501), None),
    ])
}

fn text(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// What tests/oracles/`oracle` reads in `text`; `None` where there is no Python.
fn read_back(oracle: &str, text: &str) -> Option<Value> {
    let python = oracles::plain_python()?;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Some(oracles::answer(
        oracles::oracle(&python, oracle).arg(file.path()),
    ))
}

/// By hand: self times are what the children leave.
#[test]
fn folded_stacks_tell_a_brick_apart_by_what_it_is_in() {
    let folded = text(|out| request().paths().write_folded(out));
    assert_eq!(
        folded,
        "request 2000\n\
         request;token 200\n\
         request;token;layer 1200\n\
         request;token;layer;attention 400\n\
         request;token;layer;attention;Gemv 3600\n\
         request;token;layer;ffn 100\n\
         request;token;layer;ffn;Gemv 2500\n\
         a,b<c>&\"d'\\ 1001\n"
    );
    let paths = request().paths();
    assert_eq!(paths.total_ns(), 11_001);
    let attention = paths.inside("attention");
    let told: Vec<_> = attention
        .nodes
        .iter()
        .map(|n| (n.name.as_str(), n.depth, n.count, n.total_ns))
        .collect();
    assert_eq!(told, [("attention", 0, 2, 4000), ("Gemv", 1, 2, 3600)]);
}

#[test]
fn paths_as_a_table() {
    let table = request().paths().inside("ffn").to_string();
    assert_eq!(
        table,
        "path        calls      total ms       self ms  self %\n\
         ffn             1         0.003         0.000     3.8\n\
         \u{20} Gemv          1         0.003         0.003    96.2\n"
    );
}

#[test]
fn the_flamegraph_is_xml_and_as_wide_as_the_times() {
    let svg = text(|out| request().paths().write_flamegraph("a <title> & more", out));
    let Some(read) = read_back("flamegraph.py", &svg) else {
        return;
    };
    let frames = read["frames"].as_array().unwrap();
    assert_eq!(frames.len(), 9);
    let width = |start: &str| -> Vec<f64> {
        let of = frames
            .iter()
            .filter(|f| f["title"].as_str().unwrap().starts_with(start));
        of.map(|f| f["width"].as_f64().unwrap()).collect()
    };
    // Of 1200 pixels for 11001 ns.
    for (name, ns) in [
        ("all", vec![11_001.0]),
        ("request", vec![10_000.0]),
        ("Gemv", vec![3_600.0, 2_500.0]),
    ] {
        let expected: Vec<f64> = ns.iter().map(|ns| ns / 11_001.0 * 1200.0).collect();
        let found = width(name);
        assert_eq!(found.len(), expected.len());
        assert!(
            found
                .iter()
                .zip(&expected)
                .all(|(a, b)| (a - b).abs() < 0.001),
            "{found:?} {expected:?}"
        );
    }
    let odd = frames
        .iter()
        .find(|f| f["title"].as_str().unwrap().contains("a;b<c>&\"d'\\"));
    assert!(
        odd.unwrap()["title"]
            .as_str()
            .unwrap()
            .contains("1 calls, 1.00 µs, of that 1.00 µs itself (9.1 % of all)")
    );
}

#[test]
fn chrome_gets_nested_slices_names_and_a_counter() {
    let json = text(|out| request().write_chrome("a \"model\"\n", out));
    let Some(read) = read_back("trace_events.py", &json) else {
        return;
    };
    let slices = read["slices"].as_array().unwrap();
    assert_eq!(slices.len(), 12);
    assert_eq!(read["deepest"], 5);
    assert_eq!(slices[4], serde_json::json!([1, 400, 2000, "Gemv"]));
    assert_eq!(slices[8], serde_json::json!([1, 6000, 9000, "layer 1"]));
    assert_eq!(slices[11], serde_json::json!([2, 500, 1501, ODD.name]));
    assert_eq!(
        read["names"],
        serde_json::json!({"1": "main \"1\" (42)", "2": "thread 42"})
    );
    let counter = serde_json::json!([
        [400, 1],
        [500, 2],
        [1501, 1],
        [2000, 0],
        [2400, 1],
        [4900, 0],
        [6100, 1],
        [8100, 0]
    ]);
    assert_eq!(read["counters"]["threads in bricks"], counter);
    assert_eq!(read["other"]["start_unix_ns"], "1700000000000000000");
    assert_eq!(read["other"]["dropped"], "3");
}

/// A guard that was returned from the call it was made in, and polls that go from thread to thread.
#[test]
fn chrome_gets_what_does_not_nest_as_pairs_and_polls_as_a_flow() {
    let mut timeline = timeline(vec![
        event(EventKind::Brick(&GEMV), 0, (0, 1_000), None),
        event(EventKind::Span("guarded"), 0, (500, 3_000), Some(0)),
        event(EventKind::Brick(&GEMV), 0, (1_500, 2_000), Some(1)),
        event(EventKind::Poll(&ODD), 0, (3_100, 3_100), None),
        event(EventKind::Poll(&ODD), 0, (9_000, 9_500), None),
        event(EventKind::Poll(&ODD), 1, (4_000, 5_000), None),
    ]);
    for poll in &mut timeline.events[3..] {
        poll.call = Some(17);
    }
    let json = text(|out| timeline.write_chrome("apr", out));
    let Some(read) = read_back("trace_events.py", &json) else {
        return;
    };
    assert_eq!(read["pairs"], 1);
    assert_eq!(read["flows"], serde_json::json!({"17": 3}));
    assert_eq!(read["slices"].as_array().unwrap().len(), 5);
    // The part of the span that is outside the call is the span's own.
    assert_eq!(timeline.self_ns()[..3], [500, 2_000, 500]);
}

#[test]
fn an_empty_timeline_is_valid_everywhere() {
    let empty = timeline(vec![]);
    let json = text(|out| empty.write_chrome("apr", out));
    let svg = text(|out| empty.paths().write_flamegraph("nothing", out));
    assert_eq!(text(|out| empty.paths().write_folded(out)), "");
    let Some(read) = read_back("trace_events.py", &json) else {
        return;
    };
    assert_eq!(read["slices"], serde_json::json!([]));
    read_back("flamegraph.py", &svg);
}

/// The oracle finds each fault that it looks for, planted in a good trace.
#[test]
fn the_oracle_refuses_what_the_format_forbids() {
    let Some(python) = oracles::plain_python() else {
        return;
    };
    let told = oracles::answer(oracles::oracle(&python, "trace_events.py").arg("--self-test"));
    assert!(told["broken"].as_u64().unwrap() > 20, "{told}");
}
