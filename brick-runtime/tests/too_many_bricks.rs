//! More bricks than there is room for. They fill a table of the process: a test of its own.
#![cfg(feature = "visualization")]

mod common;

use brick_runtime::__private::Site;
use brick_runtime::{BrickInfo, BrickProfiler};
use common::{call, of};

/// A brick made at run time.
fn brick(name: String) -> &'static Site {
    let name: &'static str = name.leak();
    let info: &'static BrickInfo = Box::leak(Box::new(BrickInfo::new(
        name,
        module_path!(),
        "test",
        file!(),
        line!(),
    )));
    Box::leak(Box::new(Site::new(info)))
}

#[test]
fn bricks_past_the_last_are_told_as_dropped() {
    let before = BrickProfiler::global().snapshot().dropped();
    // 2047 indices; the profiler's own brick has one.
    let sites: Vec<_> = (0..2100).map(|i| brick(format!("limit {i}"))).collect();
    for site in &sites {
        for _ in 0..3 {
            call(site, || ());
        }
    }
    let snapshot = BrickProfiler::global().snapshot();
    let recorded: u64 = (0..2100)
        .filter_map(|i| of(&snapshot, &format!("limit {i}")))
        .map(|brick| brick.calls())
        .sum();
    let dropped = snapshot.dropped() - before;
    assert_eq!(recorded + dropped, 6300);
    assert_eq!(dropped, 3 * (2100 - 2046));
    assert_eq!(of(&snapshot, "limit 0").unwrap().calls(), 3);
    assert!(of(&snapshot, "limit 2099").is_none());
}
