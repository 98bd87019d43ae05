//! The exponential, in arithmetic that vectorises.

/// `eˣ` to two units in the last place; 0 where that is below 2⁻¹²⁵, infinity where it overflows,
/// NaN for NaN.
///
/// Cephes' `expf`: `x = k ln 2 + r` with `|r| ≤ ½ ln 2`, and a polynomial for `eʳ`. No branch, no
/// table, no call and no fused operation, so a loop over it is vectorised for every instruction
/// set and gives the same bits on all; the standard library's is a call for each number.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Added to a small number, leaves its nearest integer in the low bits.
    const ROUND: f32 = 1.5 * (1 << 23) as f32;
    /// ln 2 in two parts; `k` times the first is exact.
    const LN_2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
    const POLYNOMIAL: [f32; 6] = [
        1.987_569_1e-4,
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ];
    // Comparisons that NaN passes unchanged. Beyond these bounds the result is 0 or infinite.
    let x = if x < -87.3 { -87.3 } else { x };
    let x = if x > 89.0 { 89.0 } else { x };
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let k = rounded - ROUND;
    let r = x - k * LN_2[0] - k * LN_2[1];
    let mut p = POLYNOMIAL[0];
    for c in &POLYNOMIAL[1..] {
        p = p * r + c;
    }
    let p = p * r * r + r + 1.0;
    // 2^(k - 1), then once more 2: k itself may be 128, which no exponent field holds.
    let half = f32::from_bits(rounded.to_bits().wrapping_add(126) << 23);
    p * half * 2.0
}

#[cfg(test)]
mod tests {
    use super::exp;

    #[test]
    fn within_two_units_in_the_last_place() {
        let step = if cfg!(miri) { 100_003 } else { 101 };
        let mut worst = 0.0f64;
        for bits in (0..0x42b2_0000u32).step_by(step) {
            for x in [f32::from_bits(bits), -f32::from_bits(bits)] {
                let (ours, exact) = (exp(x), f64::from(x).exp());
                if exact > f64::from(f32::MAX) {
                    assert_eq!(ours, f32::INFINITY, "{x}");
                } else if exact < 2f64.powi(-126) {
                    assert_eq!(ours, 0.0, "{x}");
                } else if exact > 2f64.powi(-125) {
                    let unit = f64::from(f32::EPSILON) * 2f64.powf(exact.log2().floor());
                    worst = worst.max((f64::from(ours) - exact).abs() / unit);
                }
            }
        }
        assert!(worst < 2.0, "{worst}");
    }

    #[test]
    fn the_ends() {
        assert_eq!((exp(0.0), exp(-0.0)), (1.0, 1.0));
        assert_eq!((exp(f32::NEG_INFINITY), exp(-1e30)), (0.0, 0.0));
        assert_eq!(
            (exp(f32::INFINITY), exp(1e30)),
            (f32::INFINITY, f32::INFINITY)
        );
        assert!(exp(f32::NAN).is_nan() && exp(-f32::NAN).is_nan());
        assert!(exp(88.72).is_finite() && exp(88.73).is_infinite());
    }
}
