//! Root-mean-square normalisation (Zhang & Sennrich, 2019).

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::parallel::{Plan, cut, ranges};

/// `out[i, :] = x[i, :] / √(mean(x[i, :]²) + eps) * weight` for each row of `weight.len()`.
///
/// # Errors
/// If `weight` is empty, `x` is not whole rows, or `out` is not as long as `x`.
#[brick(
    id = RmsNorm,
    budget_us = 5 + x.len() / 500,
    assert(out = "finite"),
    flops = 4 * x.len(),
    bytes = 8 * x.len() + 4 * weight.len(),
    category = Norm
)]
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) -> Result<(), KernelError> {
    let check = Check("rms_norm");
    check.equal("out.len()", out.len(), x.len())?;
    let rows = rows_of(check, x, weight)?;
    let isa = Isa::choose()?;
    let plan = Plan::new(rows, 4 * weight.len());
    let parts = ranges(rows, 1, plan.n_parts());
    let outs = cut(out, parts.clone().map(|rows| rows.len() * weight.len()));
    plan.run(
        "rows",
        parts.zip(outs),
        || (),
        |(), (rows, out)| {
            let x = x[rows.start * weight.len()..].chunks_exact(weight.len());
            for (x, out) in x.zip(out.chunks_exact_mut(weight.len())) {
                norm_row(isa, x, weight, eps, out);
            }
        },
    );
    Ok(())
}

/// [`rms_norm`] in place, for the heads of queries and keys: `x` is `[n_tokens, n_heads,
/// head_dim]` and `weight` `[head_dim]`.
///
/// # Errors
/// If `weight` is empty or `x` is not whole heads.
#[brick(
    id = HeadNorm,
    budget_us = 5 + x.len() / 500,
    assert(x = "finite"),
    flops = 4 * x.len(),
    bytes = 8 * x.len() + 4 * weight.len(),
    category = Norm
)]
pub fn head_norm(x: &mut [f32], weight: &[f32], eps: f32) -> Result<(), KernelError> {
    let heads = rows_of(Check("head_norm"), x, weight)?;
    let isa = Isa::choose()?;
    let plan = Plan::new(heads, 4 * weight.len());
    let lengths = ranges(heads, 1, plan.n_parts()).map(|heads| heads.len() * weight.len());
    plan.run(
        "heads",
        cut(x, lengths),
        || (),
        |(), heads| {
            for head in heads.chunks_exact_mut(weight.len()) {
                norm_row_in_place(isa, head, weight, eps);
            }
        },
    );
    Ok(())
}

/// Rows of `x`, as long as `weight` each.
pub(crate) fn rows_of(check: Check, x: &[f32], weight: &[f32]) -> Result<usize, KernelError> {
    check.non_zero("weight.len()", weight.len())?;
    check.quotient("x.len()", x.len(), weight.len())
}

/// One row of [`rms_norm`].
#[inline]
pub(crate) fn norm_row(isa: Isa, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = inverse_rms(isa, x, eps);
    for (out, (x, weight)) in out.iter_mut().zip(x.iter().zip(weight)) {
        *out = x * scale * weight;
    }
}

/// One row of [`head_norm`].
#[inline]
pub(crate) fn norm_row_in_place(isa: Isa, x: &mut [f32], weight: &[f32], eps: f32) {
    let scale = inverse_rms(isa, x, eps);
    for (x, weight) in x.iter_mut().zip(weight) {
        *x = *x * scale * weight;
    }
}

#[inline]
fn inverse_rms(isa: Isa, x: &[f32], eps: f32) -> f32 {
    1.0 / (isa.dot(x, x) / x.len() as f32 + eps).sqrt()
}
