//! The 6-bit scales and minima that Q4_K and Q5_K pack into 12 bytes.

/// Scale and minimum of sub-block `s` in 0..8 (ggml's `get_scale_min_k4`): the first four have
/// their six bits in one byte; the others have four bits in `packed[s + 4]` and the upper two in
/// the top of the bytes of the first four.
#[inline(always)]
pub(super) fn scale_and_min(packed: &[u8; 12], s: usize) -> (f32, f32) {
    let (scale, min) = if s < 4 {
        (packed[s] & 63, packed[s + 4] & 63)
    } else {
        (
            packed[s + 4] & 15 | packed[s - 4] >> 6 << 4,
            packed[s + 4] >> 4 | packed[s] >> 6 << 4,
        )
    };
    (f32::from(scale), f32::from(min))
}

/// All of them as integers: the eight scales, then the eight minima. Four at a time, in the bytes of
/// a word.
#[inline(always)]
pub(crate) fn scales_and_mins(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let mut words = [0u32; 3];
    for (word, bytes) in words.iter_mut().zip(packed.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [a, b, c] = words;
    let low_six = |word: u32| word & 0x3f3f_3f3f;
    let top_two = |word: u32| (word >> 6 & 0x0303_0303) << 4;
    let pair = |first: u32, last: u32| {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&first.to_le_bytes());
        bytes[4..].copy_from_slice(&last.to_le_bytes());
        bytes
    };
    (
        pair(low_six(a), c & 0x0f0f_0f0f | top_two(a)),
        pair(low_six(b), c >> 4 & 0x0f0f_0f0f | top_two(b)),
    )
}

#[cfg(test)]
mod tests {
    use super::{scale_and_min, scales_and_mins};

    #[test]
    fn four_at_a_time_is_one_at_a_time() {
        for seed in 0..64u32 {
            let packed: [u8; 12] = std::array::from_fn(|i| {
                (seed * 37 + i as u32)
                    .wrapping_mul(0x9E37_79B1)
                    .to_le_bytes()[3]
            });
            let (scales, mins) = scales_and_mins(&packed);
            for s in 0..8 {
                let each = (f32::from(scales[s]), f32::from(mins[s]));
                assert_eq!(each, scale_and_min(&packed, s), "{packed:?} {s}");
            }
        }
    }
}
