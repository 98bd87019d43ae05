//! Memory does not grow with calls. A test of its own: others would start threads meanwhile.
#![cfg(all(feature = "visualization", target_os = "linux"))]

mod common;

use common::{call, stats};

/// Resident pages of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no /proc")]
fn a_hundred_million_calls_take_no_memory() {
    let site = site!("memory");
    let calls = |n| (0..n).for_each(|_| call(site, || ()));
    calls(10_000);
    let before = (resident(), stats("memory").unwrap().calls());
    calls(100_000_000);
    let after = (resident(), stats("memory").unwrap().calls());
    assert_eq!(after.1 - before.1, 100_000_000);
    assert!(
        after.0 <= before.0 + 128,
        "{} pages became {}",
        before.0,
        after.0
    );
}
