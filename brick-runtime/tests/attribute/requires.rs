//! `requires`: before the body, over the parameters.

use brick_runtime::brick;

use crate::{BrickId, assert_faults, record};

#[brick(id = Requires, requires = x.len() == out.len() && !x.is_empty())]
fn copy(x: &[f32], out: &mut [f32]) -> usize {
    let n = x.len().min(out.len());
    out[..n].copy_from_slice(&x[..n]);
    n
}

#[test]
fn a_condition_that_does_not_hold_is_a_violation_with_its_text() {
    record();
    assert_eq!(copy(&[1.0], &mut [0.0]), 1);
    assert_faults(BrickId::Requires, &[]);
    assert_eq!(copy(&[1.0], &mut [0.0; 2]), 1);
    assert_faults(
        BrickId::Requires,
        &["requires x.len() == out.len() && !x.is_empty()"],
    );
}

#[brick(id = RequiresOrder, requires = log.is_empty())]
fn fills(log: &mut Vec<u8>) {
    log.push(1);
}

#[test]
fn it_is_looked_at_before_the_body() {
    record();
    fills(&mut Vec::new());
    assert_faults(BrickId::RequiresOrder, &[]);
}
