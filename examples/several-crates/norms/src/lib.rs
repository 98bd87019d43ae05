//! Another library of annotated kernels, which knows nothing of the first.

use brick_runtime::brick;

// Makes `several_crates_norms::BrickId`.
brick_runtime::bricks!();

/// Divides by the root mean square.
#[brick(id = RmsNorm, budget_us = 1000, category = Norm, elements = x.len(), assert = "finite")]
pub fn rms_norm(x: &mut [f32]) {
    let mean_square = x.iter().map(|v| v * v).sum::<f32>() / x.len() as f32;
    let scale = 1.0 / (mean_square + 1e-6).sqrt();
    x.iter_mut().for_each(|v| *v *= scale);
}
