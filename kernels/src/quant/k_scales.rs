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
