//! `#[track_caller]` stays true.

use std::panic::{Location, catch_unwind};

use brick_runtime::brick;

use crate::{BrickId, stats};

#[brick(id = Caller, elements = x.len())]
#[track_caller]
fn first(x: &[f32]) -> (f32, u32) {
    if x.is_empty() {
        return (0.0, 0);
    }
    assert!(x[0] >= 0.0);
    (x[0], Location::caller().line())
}

#[test]
fn the_caller_is_the_caller() {
    assert_eq!(first(&[1.0]), (1.0, line!()));
    assert_eq!(first(&[]), (0.0, 0));
    assert!(catch_unwind(|| first(&[-1.0])).is_err());
    if let Some(stats) = stats(BrickId::Caller) {
        // A call that panicked did not do its work.
        assert_eq!((stats.calls(), stats.panics(), stats.elements()), (3, 1, 1));
    }
}
