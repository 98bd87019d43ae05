//! Matrix products over any weight format, under no role of a model.
//!
//! A model's projections go through the same inner product under their own names (see
//! [`crate::projection`]), so that a profile tells them apart.

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;
use crate::linear::{Input, check_shapes, project, store};
use crate::quant::Matrix;

/// Matrix times vector: `y[r] = W[r, :] · x`, with `x` `[w.cols()]` and `y` `[w.rows()]`.
///
/// Bit-equal to [`gemm`] of the same row of `x`, on any number of threads.
///
/// # Errors
/// If a length does not match the matrix.
#[brick(
    id = Gemv,
    budget_us = 20 + w.rows() * w.cols() / 2000,
    assert(y = "finite"),
    flops = 2 * w.rows() * w.cols(),
    bytes = w.byte_len() + 4 * (x.len() + y.len()),
    category = Linear
)]
pub fn gemv(w: &Matrix<'_>, x: &[f32], y: &mut [f32]) -> Result<(), KernelError> {
    check_shapes(Check("gemv"), w, ("x.len()", x), 1, ("y.len()", y))?;
    project([w], &Input::new(x, 1, &[w])?, y, store);
    Ok(())
}

/// Matrix times matrix: `y[t, r] = W[r, :] · x[t, :]`, with `x` `[n_tokens, w.cols()]` and `y`
/// `[n_tokens, w.rows()]`.
///
/// A token's result does not depend, to the last bit, on the tokens beside it or on the number of
/// threads.
///
/// # Errors
/// If a length does not match the matrix and `n_tokens`.
#[brick(
    id = Gemm,
    budget_us = 20 + w.cols() * (y.len() + 7 * w.rows()) / 16000,
    assert(y = "finite"),
    flops = 2 * w.cols() * y.len(),
    bytes = w.byte_len() + 4 * (x.len() + y.len()),
    category = Linear
)]
pub fn gemm(w: &Matrix<'_>, x: &[f32], n_tokens: usize, y: &mut [f32]) -> Result<(), KernelError> {
    check_shapes(Check("gemm"), w, ("x.len()", x), n_tokens, ("y.len()", y))?;
    project([w], &Input::new(x, n_tokens, &[w])?, y, store);
    Ok(())
}
