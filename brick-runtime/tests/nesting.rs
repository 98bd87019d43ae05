//! Calls nested deeper than any stack of our own could be.
#![cfg(feature = "visualization")]

mod common;

use brick_runtime::__private::Site;
use brick_runtime::BrickProfiler;
use common::{call, of};

/// Deep nesting and recursion: self times still add up to the time there was.
#[test]
fn nesting_has_no_depth_limit() {
    fn down(site: &'static Site, depth: u32) {
        call(site, || {
            if depth > 0 {
                down(site, depth - 1);
            }
        });
    }
    let site = site!("deep");
    let thread = std::thread::Builder::new().stack_size(64 << 20);
    thread.spawn(|| down(site, 9_999)).unwrap().join().unwrap();
    let snapshot = BrickProfiler::global().snapshot();
    let brick = of(&snapshot, "deep").unwrap();
    assert_eq!((brick.calls(), brick.recursive()), (10_000, 9_999));
    let folds = snapshot.cost().folds.total_ns;
    assert!(brick.self_ns() <= brick.total_ns() + 1.0);
    assert!(brick.self_ns() >= brick.total_ns() - folds - 1.0);
}
