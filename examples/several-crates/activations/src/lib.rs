//! A library of annotated kernels.

use brick_runtime::brick;

// Makes `several_crates_activations::BrickId`.
brick_runtime::bricks!();

/// `x · sigmoid(x)`, element by element.
#[brick(id = Silu, budget_us = 1000, category = Activation, elements = x.len(), assert = "no_nan")]
pub fn silu(x: &mut [f32]) {
    x.iter_mut().for_each(|v| *v /= 1.0 + (-*v).exp());
}

/// `max(x, 0)`, element by element.
#[brick(id = Relu, budget_us = 1000, category = Activation, elements = x.len(), assert = "no_nan")]
pub fn relu(x: &mut [f32]) {
    x.iter_mut().for_each(|v| *v = v.max(0.0));
}
