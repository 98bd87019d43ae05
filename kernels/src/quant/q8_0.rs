//! Q8_0: 8 bits an element, 32 elements a block; for weights and for activations.

use bytemuck::{Pod, Zeroable};

use super::F16;
use super::block::Block;
use super::rounded::{narrow, round_32};
use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;

/// 32 elements of 8 bits: `q * d`.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// Scale.
    pub d: F16,
    /// The elements, in order.
    pub qs: [i8; 32],
}

const _: () = assert!(size_of::<BlockQ8_0>() == 34 && align_of::<BlockQ8_0>() == 1);

impl Block<32> for BlockQ8_0 {
    #[inline(always)]
    fn dequantise(&self, out: &mut [f32; 32]) {
        let (d, qs) = (self.d.to_f32(), self.qs);
        for j in 0..32 {
            out[j] = f32::from(qs[j]) * d;
        }
    }

    fn scales_are_finite(&self) -> bool {
        self.d.is_finite()
    }
}

/// Quantises `x` to Q8_0, bit-equal to ggml's x86 `quantize_row_q8_0`.
///
/// For each 32 elements: `d = max|x| / 127`, `q = round(x * 127 / max|x|)`, ties to even (ggml's
/// portable reference rounds ties away from zero; its SIMD code, which is what runs, does not). A
/// block with an element that is NaN or infinite gets a scale that is NaN.
///
/// # Errors
/// If `x.len()` is not 32 for each of `blocks`.
#[brick(
    id = QuantizeQ80,
    budget_us = 5 + x.len() / 200,
    requires = x.iter().all(|v| v.is_finite()),
    flops = 3 * x.len(),
    bytes = 4 * x.len() + 34 * blocks.len(),
    category = Quantize
)]
pub fn quantise_q8_0(x: &[f32], blocks: &mut [BlockQ8_0]) -> Result<(), KernelError> {
    let check = Check("quantise_q8_0");
    check.equal(
        "blocks.len()",
        blocks.len(),
        check.quotient("x.len()", x.len(), 32)?,
    )?;
    for (x, block) in x.as_chunks::<32>().0.iter().zip(blocks) {
        let (d, qs) = round_32(x);
        *block = BlockQ8_0 {
            d: F16::from_f32(d),
            qs: narrow(&qs),
        };
    }
    Ok(())
}
