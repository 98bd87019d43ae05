//! Q6_K: 6 bits an element, 256 elements a block in 16 sub-blocks of 16.

use bytemuck::{Pod, Zeroable};

use super::F16;
use super::block::Block;

/// 256 elements of 6 bits: `d * scales[s] * (q - 32)` for sub-block `s` of 16.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// The low four bits, 64 bytes for each half of the block.
    pub ql: [u8; 128],
    /// The upper two bits, 32 bytes for each half of the block.
    pub qh: [u8; 64],
    /// The sub-blocks' scales.
    pub scales: [i8; 16],
    /// Scale of the scales; last, unlike in the other formats.
    pub d: F16,
}

const _: () = assert!(size_of::<BlockQ6K>() == 210 && align_of::<BlockQ6K>() == 1);

impl Block<256> for BlockQ6K {
    #[inline(always)]
    fn dequantise(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let halves = out.as_chunks_mut::<128>().0.iter_mut();
        let ql = self.ql.as_chunks::<64>().0.iter();
        let qh = self.qh.as_chunks::<32>().0.iter();
        let scales = self.scales.as_chunks::<8>().0.iter();
        for (out, (ql, (qh, scales))) in halves.zip(ql.zip(qh.zip(scales))) {
            let scale = scales.map(|scale| d * f32::from(scale));
            // Quarter `k` of 32 elements takes bits 2k, 2k + 1 of `qh`, and a nibble of one half of `ql`.
            for l in 0..32 {
                let q = [
                    ql[l] & 15 | (qh[l] & 3) << 4,
                    ql[l + 32] & 15 | (qh[l] >> 2 & 3) << 4,
                    ql[l] >> 4 | (qh[l] >> 4 & 3) << 4,
                    ql[l + 32] >> 4 | qh[l] >> 6 << 4,
                ];
                for (k, q) in q.into_iter().enumerate() {
                    out[l + 32 * k] = scale[l / 16 + 2 * k] * (i32::from(q) - 32) as f32;
                }
            }
        }
    }

    fn scales_are_finite(&self) -> bool {
        self.d.is_finite()
    }
}
