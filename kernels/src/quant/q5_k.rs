//! Q5_K: 5 bits an element, 256 elements a block in 8 sub-blocks of 32.

use bytemuck::{Pod, Zeroable};

use super::F16;
use super::block::Block;
use super::k_scales::scale_and_min;

/// 256 elements of 5 bits: `d * scale[s] * q - dmin * min[s]` for sub-block `s` of 32.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ5K {
    /// Scale of the scales.
    pub d: F16,
    /// Scale of the minima.
    pub dmin: F16,
    /// Eight 6-bit scales and eight 6-bit minima.
    pub scales: [u8; 12],
    /// The fifth bits: bit `s` of `qh[l]` belongs to element `l` of sub-block `s`.
    pub qh: [u8; 32],
    /// The low four bits: 32 bytes for each two sub-blocks, the even one in the low nibbles.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<BlockQ5K>() == 176 && align_of::<BlockQ5K>() == 1);

impl Block<256> for BlockQ5K {
    #[inline(always)]
    fn dequantise(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let pairs = out.as_chunks_mut::<64>().0.iter_mut();
        for (c, (out, qs)) in pairs.zip(self.qs.as_chunks::<32>().0).enumerate() {
            let (scale_low, min_low) = scale_and_min(&self.scales, 2 * c);
            let (scale_high, min_high) = scale_and_min(&self.scales, 2 * c + 1);
            let (d_low, m_low) = (d * scale_low, dmin * min_low);
            let (d_high, m_high) = (d * scale_high, dmin * min_high);
            let (qs, qh) = (*qs, self.qh);
            let (low, high) = out.split_at_mut(32);
            for l in 0..32 {
                let q = qs[l] & 15 | (qh[l] >> (2 * c) & 1) << 4;
                low[l] = d_low * f32::from(q) - m_low;
            }
            for l in 0..32 {
                let q = qs[l] >> 4 | (qh[l] >> (2 * c + 1) & 1) << 4;
                high[l] = d_high * f32::from(q) - m_high;
            }
        }
    }

    fn scales_are_finite(&self) -> bool {
        self.d.is_finite() && self.dmin.is_finite()
    }
}
