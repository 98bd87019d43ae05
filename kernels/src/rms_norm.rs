//! Root-mean-square normalisation (Zhang & Sennrich, 2019).

use rayon::prelude::*;

use brick_runtime::brick;
use brick_runtime::timeline::handover;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::parallel::outputs_per_task;

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
    let per_task = outputs_per_task(rows, 4 * weight.len()).max(1) * weight.len();
    let run = |(x, out): (&[f32], &mut [f32])| {
        let rows = x.chunks_exact(weight.len());
        for (x, out) in rows.zip(out.chunks_exact_mut(weight.len())) {
            let scale = inverse_rms(isa, x, eps);
            for (out, (x, weight)) in out.iter_mut().zip(x.iter().zip(weight)) {
                *out = x * scale * weight;
            }
        }
    };
    if per_task >= x.len() {
        run((x, out));
    } else {
        let work = handover();
        x.par_chunks(per_task)
            .zip(out.par_chunks_mut(per_task))
            .for_each_init(|| work.task("rows"), |_task, rows| run(rows));
    }
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
    let per_task = outputs_per_task(heads, 4 * weight.len()).max(1) * weight.len();
    let run = |heads: &mut [f32]| {
        for head in heads.chunks_exact_mut(weight.len()) {
            let scale = inverse_rms(isa, head, eps);
            for (x, weight) in head.iter_mut().zip(weight) {
                *x = *x * scale * weight;
            }
        }
    };
    if per_task >= x.len() {
        run(x);
    } else {
        let work = handover();
        x.par_chunks_mut(per_task)
            .for_each_init(|| work.task("heads"), |_task, heads| run(heads));
    }
    Ok(())
}

fn rows_of(check: Check, x: &[f32], weight: &[f32]) -> Result<usize, KernelError> {
    check.non_zero("weight.len()", weight.len())?;
    check.quotient("x.len()", x.len(), weight.len())
}

#[inline]
fn inverse_rms(isa: Isa, x: &[f32], eps: f32) -> f32 {
    1.0 / (isa.dot(x, x) / x.len() as f32 + eps).sqrt()
}
