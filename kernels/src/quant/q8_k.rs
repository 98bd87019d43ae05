//! Q8_K: 8 bits an element, 256 elements a block; the activations' side of K-quant dot products.

use bytemuck::{Pod, Zeroable};

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;

/// 256 elements of 8 bits, with the sums that a dot product against a format with minima needs.
/// For activations only; never in a file.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8K {
    /// Scale; may be negative.
    pub d: f32,
    /// The elements, in order.
    pub qs: [i8; 256],
    /// The sum of each 16 consecutive `qs`.
    pub bsums: [i16; 16],
}

const _: () = assert!(size_of::<BlockQ8K>() == 292);

/// Quantises `x` to Q8_K, bit-equal to ggml's `quantize_row_q8_K`.
///
/// For each 256 elements: the first element of largest magnitude becomes -127, `q = round(x *
/// -127 / max)`, ties to even, at most 127, `d = 1 / (-127 / max)`.
///
/// # Errors
/// If `x.len()` is not 256 for each of `blocks`.
#[brick(
    id = QuantizeQ8K,
    budget_us = 5 + x.len() / 200,
    requires = x.iter().all(|v| v.is_finite()),
    flops = 4 * x.len(),
    bytes = 4 * x.len() + 292 * blocks.len(),
    category = Quantize
)]
pub fn quantise_q8_k(x: &[f32], blocks: &mut [BlockQ8K]) -> Result<(), KernelError> {
    let check = Check("quantise_q8_k");
    check.equal(
        "blocks.len()",
        blocks.len(),
        check.quotient("x.len()", x.len(), 256)?,
    )?;
    for (x, block) in x.as_chunks::<256>().0.iter().zip(blocks) {
        let mut max = 0.0f32;
        for &v in x {
            if v.abs() > max.abs() {
                max = v;
            }
        }
        if max == 0.0 {
            *block = Zeroable::zeroed();
            continue;
        }
        let inverse = -127.0 / max;
        for (q, v) in block.qs.iter_mut().zip(x) {
            *q = (inverse * v).round_ties_even().min(127.0) as i8;
        }
        for (sum, qs) in block.bsums.iter_mut().zip(block.qs.as_chunks::<16>().0) {
            *sum = qs.iter().map(|&q| i16::from(q)).sum();
        }
        block.d = 1.0 / inverse;
    }
    Ok(())
}
