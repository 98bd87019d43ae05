//! Q4_0 and Q4_1: 4 bits an element, 32 elements a block.

use bytemuck::{Pod, Zeroable};

use super::F16;
use super::block::Block;

/// 32 elements of 4 bits: `(q - 8) * d`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// Scale.
    pub d: F16,
    /// Element `j` in the low nibble of `qs[j]`, element `j + 16` in the high one.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ4_0>() == 18 && align_of::<BlockQ4_0>() == 1);

impl Block<32> for BlockQ4_0 {
    #[inline(always)]
    fn dequantise(&self, out: &mut [f32; 32]) {
        let (d, qs) = (self.d.to_f32(), self.qs);
        let (low, high) = out.split_at_mut(16);
        for j in 0..16 {
            low[j] = f32::from((qs[j] & 15) as i8 - 8) * d;
        }
        for j in 0..16 {
            high[j] = f32::from((qs[j] >> 4) as i8 - 8) * d;
        }
    }

    fn scales_are_finite(&self) -> bool {
        self.d.is_finite()
    }
}

/// 32 elements of 4 bits: `q * d + m`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4_1 {
    /// Scale.
    pub d: F16,
    /// Minimum.
    pub m: F16,
    /// Element `j` in the low nibble of `qs[j]`, element `j + 16` in the high one.
    pub qs: [u8; 16],
}

const _: () = assert!(size_of::<BlockQ4_1>() == 20 && align_of::<BlockQ4_1>() == 1);

impl Block<32> for BlockQ4_1 {
    #[inline(always)]
    fn dequantise(&self, out: &mut [f32; 32]) {
        let (d, m, qs) = (self.d.to_f32(), self.m.to_f32(), self.qs);
        let (low, high) = out.split_at_mut(16);
        for j in 0..16 {
            low[j] = f32::from(qs[j] & 15) * d + m;
        }
        for j in 0..16 {
            high[j] = f32::from(qs[j] >> 4) * d + m;
        }
    }

    fn scales_are_finite(&self) -> bool {
        self.d.is_finite() && self.m.is_finite()
    }
}
