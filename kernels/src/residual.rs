//! Elementwise arithmetic on the residual stream.

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;

/// `x[i] += y[i]`.
///
/// # Errors
/// If the lengths differ.
#[brick(
    id = ResidualAdd,
    budget_us = 5 + x.len() / 500,
    assert(x = "finite"),
    flops = x.len(),
    bytes = 12 * x.len(),
    category = Residual
)]
pub fn residual_add(x: &mut [f32], y: &[f32]) -> Result<(), KernelError> {
    Check("residual_add").equal("y.len()", y.len(), x.len())?;
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
    Ok(())
}

/// `x[i] *= factor`.
#[brick(
    id = Scale,
    budget_us = 5 + x.len() / 500,
    assert(x = "finite"),
    flops = x.len(),
    bytes = 8 * x.len(),
    category = Residual
)]
pub fn scale(x: &mut [f32], factor: f32) {
    for x in x {
        *x *= factor;
    }
}
