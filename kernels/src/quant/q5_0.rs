//! Q5_0: 5 bits an element, 32 elements a block.

use bytemuck::{Pod, Zeroable};

use super::F16;
use super::block::Block;

/// 32 elements of 5 bits: `(q - 16) * d`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5_0 {
    /// Scale.
    pub d: F16,
    /// The fifth bits, little-endian: bit `j` belongs to element `j`.
    pub qh: [u8; 4],
    /// The low four bits: element `j` in the low nibble of `qs[j]`, `j + 16` in the high one.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ5_0>() == 22 && align_of::<BlockQ5_0>() == 1);

impl Block<32> for BlockQ5_0 {
    #[inline(always)]
    fn dequantise(&self, out: &mut [f32; 32]) {
        let (d, qs) = (self.d.to_f32(), self.qs);
        let qh = u32::from_le_bytes(self.qh);
        let (low, high) = out.split_at_mut(16);
        for j in 0..16 {
            let q = u32::from(qs[j] & 15) | ((qh >> j) & 1) << 4;
            low[j] = (q as i32 - 16) as f32 * d;
        }
        for j in 0..16 {
            let q = u32::from(qs[j] >> 4) | ((qh >> (j + 16)) & 1) << 4;
            high[j] = (q as i32 - 16) as f32 * d;
        }
    }

    fn scales_are_finite(&self) -> bool {
        self.d.is_finite()
    }
}
