//! What the block formats have in common, and the loops over rows of blocks.

use bytemuck::{AnyBitPattern, NoUninit};

use super::{
    BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5K, BlockQ6K, BlockQ8_0, F16, Format,
};

/// One block of `N` elements.
///
/// Everything is `inline(always)`: the loops below are compiled again inside each instruction
/// set's functions ([`crate::arch`]), which works only for code that is inlined into them.
pub(crate) trait Block<const N: usize>: AnyBitPattern + NoUninit {
    /// Writes the block's elements, bit-equal to ggml's `dequantize_row_*`.
    fn dequantise(&self, out: &mut [f32; N]);

    /// Whether every scale of the block is finite.
    fn scales_are_finite(&self) -> bool;
}

/// Dequantises consecutive blocks.
///
/// `bytes` holds exactly `out.len()` elements of `format`; [`super::Matrix`] is what makes sure of
/// that. A shorter `bytes` leaves the rest of `out` as it was.
#[inline(always)]
pub(crate) fn dequantise(format: Format, bytes: &[u8], out: &mut [f32]) {
    debug_assert_eq!(format.bytes_for(out.len()), Some(bytes.len()));
    match format {
        Format::F32 => elements(bytes, out, f32::from_le_bytes),
        Format::F16 => elements(bytes, out, |b| F16::from_le_bytes(b).to_f32()),
        Format::Bf16 => elements(bytes, out, bf16_to_f32),
        Format::Q4_0 => blocks::<BlockQ4_0, 32>(bytes, out),
        Format::Q4_1 => blocks::<BlockQ4_1, 32>(bytes, out),
        Format::Q5_0 => blocks::<BlockQ5_0, 32>(bytes, out),
        Format::Q8_0 => blocks::<BlockQ8_0, 32>(bytes, out),
        Format::Q4K => blocks::<BlockQ4K, 256>(bytes, out),
        Format::Q5K => blocks::<BlockQ5K, 256>(bytes, out),
        Format::Q6K => blocks::<BlockQ6K, 256>(bytes, out),
    }
}

#[inline(always)]
fn blocks<B: Block<N>, const N: usize>(bytes: &[u8], out: &mut [f32]) {
    let blocks: &[B] = bytemuck::cast_slice(bytes);
    for (block, out) in blocks.iter().zip(out.as_chunks_mut::<N>().0) {
        block.dequantise(out);
    }
}

#[inline(always)]
fn elements<const N: usize>(bytes: &[u8], out: &mut [f32], to_f32: impl Fn([u8; N]) -> f32) {
    for (element, out) in bytes.as_chunks::<N>().0.iter().zip(out) {
        *out = to_f32(*element);
    }
}

#[inline(always)]
fn bf16_to_f32(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

/// The first block of `bytes` with a scale that is NaN or infinite; for the formats without
/// blocks, the first such element.
pub(super) fn first_bad_scale(format: Format, bytes: &[u8]) -> Option<usize> {
    match format {
        Format::F32 => first_bad_element(bytes, f32::from_le_bytes),
        Format::F16 => first_bad_element(bytes, |b| F16::from_le_bytes(b).to_f32()),
        Format::Bf16 => first_bad_element(bytes, bf16_to_f32),
        Format::Q4_0 => first_bad_block::<BlockQ4_0, 32>(bytes),
        Format::Q4_1 => first_bad_block::<BlockQ4_1, 32>(bytes),
        Format::Q5_0 => first_bad_block::<BlockQ5_0, 32>(bytes),
        Format::Q8_0 => first_bad_block::<BlockQ8_0, 32>(bytes),
        Format::Q4K => first_bad_block::<BlockQ4K, 256>(bytes),
        Format::Q5K => first_bad_block::<BlockQ5K, 256>(bytes),
        Format::Q6K => first_bad_block::<BlockQ6K, 256>(bytes),
    }
}

fn first_bad_block<B: Block<N>, const N: usize>(bytes: &[u8]) -> Option<usize> {
    let blocks: &[B] = bytemuck::cast_slice(bytes);
    blocks.iter().position(|block| !block.scales_are_finite())
}

fn first_bad_element<const N: usize>(
    bytes: &[u8],
    to_f32: impl Fn([u8; N]) -> f32,
) -> Option<usize> {
    let elements = bytes.as_chunks::<N>().0;
    elements.iter().position(|&e| !to_f32(e).is_finite())
}
