//! What activations become when integer dot products take them.

use bytemuck::Zeroable;

use super::block::Block;
use super::{BlockQ8_0, BlockQ8K, Format, quantise_q8_0, quantise_q8_k};
use crate::KernelError;
use crate::check::Check;

/// Blocks that are quantised at a time, on the stack.
const BLOCKS: usize = 16;

/// How a product with a matrix takes its activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Activations {
    /// Rounded to 8 bits and multiplied as integers, where the weights are in a format with blocks:
    /// some times as fast, and as exact as ggml, which does the same.
    #[default]
    Rounded,
    /// As they are; the weights are dequantised.
    F32,
}

/// The 8-bit formats of activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ActivationFormat {
    /// 32 elements, an `f16` scale.
    Q8_0,
    /// 256 elements, an `f32` scale.
    Q8K,
}

impl ActivationFormat {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Q8_0, Self::Q8K];

    /// What integer dot products with weights of `format` take, here and in ggml: K-quants want
    /// [`Q8K`](Self::Q8K), the others [`Q8_0`](Self::Q8_0) (`type_traits_cpu` in ggml-cpu.c; its
    /// Q8_1 for `Q4_1` is the same blocks with their sums). `None` for formats without blocks.
    pub const fn for_weights(format: Format) -> Option<Self> {
        match format {
            Format::Q4_0 | Format::Q4_1 | Format::Q5_0 | Format::Q8_0 => Some(Self::Q8_0),
            Format::Q4K | Format::Q5K | Format::Q6K => Some(Self::Q8K),
            Format::F32 | Format::F16 | Format::Bf16 => None,
        }
    }

    /// Elements of a block.
    pub const fn block_elems(self) -> usize {
        match self {
            Self::Q8_0 => 32,
            Self::Q8K => 256,
        }
    }

    /// ggml's name: `Q8_0`, `Q8_K`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "Q8_0",
            Self::Q8K => "Q8_K",
        }
    }
}

/// Writes to `out` what `x` is after quantisation to `format`: what an integer dot product would
/// see of it. Quantises with [`quantise_q8_0`] or [`quantise_q8_k`].
///
/// # Errors
/// If `x` is not whole blocks, or `out` not as long as `x`.
pub fn round_activations(
    format: ActivationFormat,
    x: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("round_activations");
    check.quotient("x.len()", x.len(), format.block_elems())?;
    check.equal("out.len()", out.len(), x.len())?;
    let piece = BLOCKS * format.block_elems();
    let pieces = x.chunks(piece).zip(out.chunks_mut(piece));
    match format {
        ActivationFormat::Q8_0 => {
            let mut held = [BlockQ8_0::zeroed(); BLOCKS];
            for (x, out) in pieces {
                let blocks = &mut held[..x.len() / 32];
                quantise_q8_0(x, blocks)?;
                for (block, out) in blocks.iter().zip(out.as_chunks_mut::<32>().0) {
                    block.dequantise(out);
                }
            }
        }
        ActivationFormat::Q8K => {
            let mut held = [BlockQ8K::zeroed(); BLOCKS];
            for (x, out) in pieces {
                let blocks = &mut held[..x.len() / 256];
                quantise_q8_k(x, blocks)?;
                for (block, out) in blocks.iter().zip(out.as_chunks_mut::<256>().0) {
                    let values = out.iter_mut().zip(block.qs);
                    values.for_each(|(out, q)| *out = block.d * f32::from(q));
                }
            }
        }
    }
    Ok(())
}
