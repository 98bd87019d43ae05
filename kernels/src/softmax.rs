//! Softmax, with the maximum taken out first so that no exponential overflows.

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;

/// `x[i, :] = exp(x[i, :] - max) / Σ exp(x[i, :] - max)`, in place, for each row of `cols`.
///
/// `-inf` is a masked place and becomes 0. A row that holds NaN or `+inf`, or that is masked
/// altogether, becomes NaN.
///
/// # Errors
/// If `cols` is 0 or `x` is not whole rows.
#[brick(
    id = Softmax,
    budget_us = 5 + x.len() / 100,
    assert(x = "finite"),
    flops = 4 * x.len(),
    bytes = 8 * x.len(),
    category = Attention
)]
pub fn softmax(x: &mut [f32], cols: usize) -> Result<(), KernelError> {
    let check = Check("softmax");
    check.non_zero("cols", cols)?;
    check.quotient("x.len()", x.len(), cols)?;
    let isa = Isa::choose()?;
    for row in x.chunks_exact_mut(cols) {
        let (_, sum) = isa.exponentials(row, 1.0, f32::NEG_INFINITY);
        let scale = 1.0 / sum;
        for x in row {
            *x *= scale;
        }
    }
    Ok(())
}
