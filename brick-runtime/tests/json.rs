//! Snapshots as JSON: every figure says where it comes from, and what is not known is null.
#![cfg(feature = "serde")]

mod common;

use brick_runtime::BrickProfiler;

#[cfg(feature = "visualization")]
#[test]
fn every_figure_of_a_brick_has_one_provenance() {
    common::call(site!("told"), || ());
    let json = serde_json::to_value(BrickProfiler::global().snapshot()).unwrap();
    let lists = json["provenance"].as_object().unwrap();
    let bricks = json["bricks"].as_array().unwrap();
    let brick = bricks.iter().find(|b| b["brick"]["name"] == "told");
    let figures = brick.unwrap().as_object().unwrap();
    for (name, figure) in figures.iter().filter(|(name, _)| *name != "brick") {
        let listed = lists.values().filter(|list| {
            let names = list.as_array().unwrap();
            names.iter().any(|listed| listed == name)
        });
        let says_so_itself = figure.get("provenance").is_some();
        assert_eq!(listed.count() + usize::from(says_so_itself), 1, "{name}");
    }
    let listed = lists.values().flat_map(|list| list.as_array().unwrap());
    for name in listed {
        assert!(figures.contains_key(name.as_str().unwrap()), "{name}");
    }
    assert_eq!(figures["calls"], 1);
    assert!(json["total_ns"].as_u64().unwrap() > 0);
}

#[cfg(not(feature = "visualization"))]
#[test]
fn what_was_not_compiled_in_is_null_and_not_zero() {
    let json = serde_json::to_value(BrickProfiler::global().snapshot()).unwrap();
    assert_eq!(json["unavailable"], "built without `visualization`");
    for name in ["total_ns", "total_tokens", "dropped", "cost"] {
        assert_eq!(json[name], serde_json::Value::Null, "{name}");
    }
    assert_eq!(json["bricks"], serde_json::json!([]));
}
