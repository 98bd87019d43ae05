//! `backend`: a second implementation of a brick.

use brick_runtime::{Backend, BrickProfiler, brick};

use crate::{BrickId, ON};

#[brick(id = Backends, budget_us = 10)]
fn scalar(x: &[f32]) -> f32 {
    x.iter().sum()
}

#[brick(id = Backends, backend = Avx2, budget_us = 5)]
fn vectors(x: &[f32]) -> f32 {
    x.iter().rev().sum()
}

#[test]
fn each_backend_has_its_own_statistics() {
    assert_eq!(BrickId::Backends.info().backend, Backend::Primary);
    scalar(&[1.0]);
    (0..3).for_each(|_| _ = vectors(&[1.0]));
    let snapshot = BrickProfiler::global().snapshot();
    let calls = |backend| {
        snapshot
            .brick_on(BrickId::Backends, backend)
            .map(|stats| (stats.calls(), stats.info().function))
    };
    assert_eq!(calls(Backend::Primary), ON.then_some((1, "scalar")));
    assert_eq!(calls(Backend::Avx2), ON.then_some((3, "vectors")));
    assert_eq!(calls(Backend::Cuda), None);
}

#[test]
fn backends_are_numbered_by_their_position() {
    for (number, backend) in Backend::ALL.into_iter().enumerate() {
        assert_eq!(backend as usize, number);
    }
}
