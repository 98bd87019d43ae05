//! Q8_K: 8 bits an element, 256 elements a block; the activations' side of K-quant dot products.

use bytemuck::{Pod, Zeroable};

use brick_runtime::brick;

use super::rounded::round_256;
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
/// -127 / max)`, ties to even, at most 127, `d = 1 / (-127 / max)`. A block with an element that is
/// NaN or infinite gets a scale that is NaN.
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
        round_256(x, block);
    }
    Ok(())
}
