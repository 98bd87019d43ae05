//! Q4_K: 4 bits an element, 256 elements a block in 8 sub-blocks of 32.

use bytemuck::{Pod, Zeroable};

use super::F16;
use super::block::Block;
use super::k_scales::scale_and_min;

/// 256 elements of 4 bits: `d * scale[s] * q - dmin * min[s]` for sub-block `s` of 32.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ4K {
    /// Scale of the scales.
    pub d: F16,
    /// Scale of the minima.
    pub dmin: F16,
    /// Eight 6-bit scales and eight 6-bit minima.
    pub scales: [u8; 12],
    /// 32 bytes for each two sub-blocks: the even one in the low nibbles, the odd one in the high.
    pub qs: [u8; 128],
}

const _: () = assert!(size_of::<BlockQ4K>() == 144 && align_of::<BlockQ4K>() == 1);

impl Block<256> for BlockQ4K {
    #[inline(always)]
    fn dequantise(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let pairs = out.as_chunks_mut::<64>().0.iter_mut();
        for (c, (out, qs)) in pairs.zip(self.qs.as_chunks::<32>().0).enumerate() {
            let (scale_low, min_low) = scale_and_min(&self.scales, 2 * c);
            let (scale_high, min_high) = scale_and_min(&self.scales, 2 * c + 1);
            let (d_low, m_low) = (d * scale_low, dmin * min_low);
            let (d_high, m_high) = (d * scale_high, dmin * min_high);
            let qs = *qs;
            let (low, high) = out.split_at_mut(32);
            for l in 0..32 {
                low[l] = d_low * f32::from(qs[l] & 15) - m_low;
            }
            for l in 0..32 {
                high[l] = d_high * f32::from(qs[l] >> 4) - m_high;
            }
        }
    }

    fn scales_are_finite(&self) -> bool {
        self.d.is_finite() && self.dmin.is_finite()
    }
}
