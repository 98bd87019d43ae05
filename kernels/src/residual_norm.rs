//! Sums into the residual stream together with the norms before and after them: one pass over rows
//! that stay in the first-level cache, and one parallel region instead of three.
//!
//! To the last bit what [`rms_norm`] and [`residual_add`] give one after the other.
//!
//! [`rms_norm`]: crate::rms_norm::rms_norm
//! [`residual_add`]: crate::residual::residual_add

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::parallel::{Plan, cut, ranges};
use crate::rms_norm::{norm_row, norm_row_in_place, rows_of};

/// The end of one block and the beginning of the next, for each row of `weight.len()`:
/// `y = norm(y) * post` if there is a `post`, then `x += y`, then `out = norm(x) * weight`, with
/// [`rms_norm`](crate::rms_norm::rms_norm)'s norm and one `eps` for both.
///
/// # Errors
/// If `weight` is empty, `post` is not as long, `x` is not whole rows, or `y` or `out` is not as long
/// as `x`.
#[brick(
    id = ResidualNorm,
    budget_us = 5 + x.len() / 250,
    assert(x = "finite", out = "finite"),
    flops = (5 + 4 * usize::from(post.is_some())) * x.len(),
    bytes = (16 + 4 * usize::from(post.is_some())) * x.len() + 4 * weight.len() + 4 * post.map_or(0, <[f32]>::len),
    category = Residual
)]
pub fn residual_norm(
    x: &mut [f32],
    y: &mut [f32],
    post: Option<&[f32]>,
    weight: &[f32],
    eps: f32,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("residual_norm");
    check.equal("y.len()", y.len(), x.len())?;
    check.equal("out.len()", out.len(), x.len())?;
    let post_len = post.map_or(weight.len(), <[f32]>::len);
    check.equal("post.len()", post_len, weight.len())?;
    let rows = rows_of(check, x, weight)?;
    let isa = Isa::choose()?;
    let dim = weight.len();
    let plan = Plan::new(rows, 9 * dim);
    let lengths = ranges(rows, 1, plan.n_parts()).map(|rows| rows.len() * dim);
    let parts = cut(x, lengths.clone()).zip(cut(y, lengths.clone()));
    plan.run(
        "rows",
        parts.zip(cut(out, lengths)),
        || (),
        |(), ((x, y), out)| {
            let rows = x.chunks_exact_mut(dim).zip(y.chunks_exact_mut(dim));
            for ((x, y), out) in rows.zip(out.chunks_exact_mut(dim)) {
                add_row(isa, x, y, post, eps);
                norm_row(isa, x, weight, eps, out);
            }
        },
    );
    Ok(())
}

/// The end of a block whose output has a norm of its own: `y = norm(y) * weight`, then `x += y`, for
/// each row of `weight.len()`.
///
/// # Errors
/// If `weight` is empty, `x` is not whole rows, or `y` is not as long as `x`.
#[brick(
    id = PostNormResidual,
    budget_us = 5 + x.len() / 350,
    assert(x = "finite"),
    flops = 5 * x.len(),
    bytes = 16 * x.len() + 4 * weight.len(),
    category = Residual
)]
pub fn post_norm_residual(
    x: &mut [f32],
    y: &mut [f32],
    weight: &[f32],
    eps: f32,
) -> Result<(), KernelError> {
    let check = Check("post_norm_residual");
    check.equal("y.len()", y.len(), x.len())?;
    let rows = rows_of(check, x, weight)?;
    let isa = Isa::choose()?;
    let dim = weight.len();
    let plan = Plan::new(rows, 5 * dim);
    let lengths = ranges(rows, 1, plan.n_parts()).map(|rows| rows.len() * dim);
    plan.run(
        "rows",
        cut(x, lengths.clone()).zip(cut(y, lengths)),
        || (),
        |(), (x, y)| {
            for (x, y) in x.chunks_exact_mut(dim).zip(y.chunks_exact_mut(dim)) {
                add_row(isa, x, y, Some(weight), eps);
            }
        },
    );
    Ok(())
}

/// Adds one row of a block's output to the stream, through the norm that some models have there.
#[inline]
fn add_row(isa: Isa, x: &mut [f32], y: &mut [f32], norm: Option<&[f32]>, eps: f32) {
    if let Some(weight) = norm {
        norm_row_in_place(isa, y, weight, eps);
    }
    for (x, y) in x.iter_mut().zip(y) {
        *x += *y;
    }
}
