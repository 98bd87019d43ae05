//! IEEE half precision as it lies in a block.

use bytemuck::{Pod, Zeroable};

/// A little-endian IEEE 754 half, as two bytes: alignment 1, so that blocks can be borrowed from
/// any offset of a file.
#[derive(Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct F16([u8; 2]);

impl F16 {
    /// Zero.
    pub(crate) const ZERO: Self = Self([0; 2]);

    /// The smallest number with all bits of precision, 2^-14.
    pub(crate) const MIN_POSITIVE: f32 = f32::from_bits((127 - 14) << 23);

    /// The nearest half, ties to even.
    pub fn from_f32(value: f32) -> Self {
        // Miri lacks the instruction of F16C.
        let half = if cfg!(miri) {
            ::half::f16::from_f32_const(value)
        } else {
            ::half::f16::from_f32(value)
        };
        Self(half.to_le_bytes())
    }

    /// The half stored in `bytes`.
    #[inline(always)]
    pub fn from_le_bytes(bytes: [u8; 2]) -> Self {
        Self(bytes)
    }

    /// The same number as an `f32`, exactly.
    ///
    /// Branch-free (shift the exponent into place and rescale; Maratyszcza's FP16), because this
    /// stands in loops that the compiler must vectorise: `half`'s conversion asks for the F16C
    /// instruction at run time, on each call.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        const EXPONENT_OFFSET: u32 = 0xE0 << 23;
        const TWO_POW_MINUS_112: f32 = f32::from_bits((127 - 112) << 23);
        const HALF: u32 = 126 << 23;
        let word = u32::from(u16::from_le_bytes(self.0)) << 16;
        let sign = word & 0x8000_0000;
        let magnitude = word << 1;
        let normal = f32::from_bits((magnitude >> 4) + EXPONENT_OFFSET) * TWO_POW_MINUS_112;
        let subnormal = f32::from_bits((magnitude >> 17) | HALF) - 0.5;
        let value = if magnitude < 1 << 27 {
            subnormal
        } else {
            normal
        };
        f32::from_bits(sign | value.to_bits())
    }

    /// Whether the number is neither NaN nor an infinity.
    #[inline(always)]
    pub fn is_finite(self) -> bool {
        u16::from_le_bytes(self.0) & 0x7C00 != 0x7C00
    }
}

impl std::fmt::Debug for F16 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_f32().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::F16;

    #[test]
    fn every_half_converts_as_the_half_crate_does() {
        // Miri would take minutes for all of them.
        for bits in (0..=u16::MAX).step_by(if cfg!(miri) { 89 } else { 1 }) {
            let ours = F16(bits.to_le_bytes());
            let theirs = half::f16::from_bits(bits);
            assert_eq!(ours.is_finite(), theirs.is_finite(), "{bits:#06x}");
            if theirs.is_nan() {
                assert!(ours.to_f32().is_nan(), "{bits:#06x}");
            } else {
                let (ours, theirs) = (ours.to_f32(), theirs.to_f32());
                assert_eq!(ours.to_bits(), theirs.to_bits(), "{bits:#06x}");
            }
        }
    }
}
