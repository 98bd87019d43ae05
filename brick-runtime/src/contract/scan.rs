//! Finding the first number that breaks a rule.
//!
//! Every predicate is a comparison of integers (a float without its sign bit orders like an
//! integer; above the infinities are the NaNs) or of floats, without a branch, so that a block
//! of numbers is tested in vectors; only a block that holds a bad one is searched.

use super::Rules;

/// Numbers tested between two branches.
const BLOCK: usize = 64;

/// The first index whose number is bad.
#[inline(always)]
fn first<T: Copy>(values: &[T], bad: impl Fn(T) -> bool) -> Option<usize> {
    let mut from = 0;
    for block in values.chunks(BLOCK) {
        if block.iter().fold(false, |any, &value| any | bad(value)) {
            return block.iter().position(|&value| bad(value)).map(|i| from + i);
        }
        from += block.len();
    }
    None
}

macro_rules! scan {
    ($name:ident, $t:ty, $int:ty, $float:ty, $infinity:expr) => {
        /// The first index of `values` that breaks `rules`.
        pub(super) fn $name(values: &[$t], rules: &Rules) -> Option<usize> {
            // The infinities' bits without the sign.
            const INFINITY: $int = $infinity;
            let magnitude = |value: $t| (value.to_bits() as $int) & <$int>::MAX;
            let Some(range) = rules.range else {
                return match (rules.no_nan, rules.no_inf) {
                    (true, true) => first(values, |v| magnitude(v) >= INFINITY),
                    (true, false) => first(values, |v| magnitude(v) > INFINITY),
                    (false, true) => first(values, |v| magnitude(v) == INFINITY),
                    (false, false) => None,
                };
            };
            let (low, high) = <$float>::bounds(range);
            // Numbers out of bounds, infinities too: NaN is never less or greater.
            let outside = |v: $t| {
                let v = <$float>::from(v);
                (v < low) | (v > high)
            };
            match (rules.no_nan, rules.no_inf) {
                (true, true) => first(values, |v| outside(v) | (magnitude(v) >= INFINITY)),
                (true, false) => first(values, |v| outside(v) | (magnitude(v) > INFINITY)),
                (false, true) => first(values, |v| outside(v) | (magnitude(v) == INFINITY)),
                (false, false) => first(values, outside),
            }
        }
    };
}

scan!(f32s, f32, i32, f32, 0x7f80_0000);
scan!(f64s, f64, i64, f64, 0x7ff0_0000_0000_0000);
#[cfg(feature = "half")]
scan!(f16s, half::f16, i16, f32, 0x7c00);
#[cfg(feature = "half")]
scan!(bf16s, half::bf16, i16, f32, 0x7f80);

/// A range in the type that is compared in.
trait Bounds: Sized {
    /// The least and the greatest number of this type within the range.
    fn bounds(range: (f64, f64)) -> (Self, Self);
}

impl Bounds for f64 {
    fn bounds(range: (f64, f64)) -> (f64, f64) {
        range
    }
}

impl Bounds for f32 {
    fn bounds((low, high): (f64, f64)) -> (f32, f32) {
        let mut bounds = (low as f32, high as f32);
        // The conversion rounds to nearest: back to the inside.
        if f64::from(bounds.0) < low {
            bounds.0 = bounds.0.next_up();
        }
        if f64::from(bounds.1) > high {
            bounds.1 = bounds.1.next_down();
        }
        bounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: [Rules; 7] = [
        Rules::NO_NAN,
        Rules::NO_INF,
        Rules::FINITE,
        Rules::range(-0.1, 0.3),
        Rules::FINITE.within(-0.1, 0.3),
        Rules::NO_NAN.within(-1e300, 1e300),
        Rules::NO_INF.within(0.0, 0.0),
    ];

    /// The rules in the words of their documentation, one number at a time, in f64.
    fn breaks(value: f64, rules: &Rules) -> bool {
        rules.no_nan && value.is_nan()
            || rules.no_inf && value.is_infinite()
            || rules.range.is_some_and(|(a, b)| value < a || value > b)
    }

    fn specials() -> Vec<f32> {
        let mut all = vec![
            f32::NAN,
            -f32::NAN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::MAX,
            f32::MIN,
        ];
        all.extend([
            0.0,
            -0.0,
            0.3,
            0.3f32.next_up(),
            0.3f32.next_down(),
            -0.1,
            -0.1f32.next_down(),
        ]);
        all.extend([
            f32::from_bits(0x7f80_0001),
            f32::from_bits(1),
            0.05,
            1e-40,
            -0.1f32.next_up(),
        ]);
        all
    }

    /// Each special value at each place of a slice that spans blocks.
    #[test]
    #[cfg_attr(miri, ignore = "safe code, and half a million numbers")]
    fn the_first_bad_number_is_found() {
        for rules in &RULES {
            for special in specials() {
                for place in [0, 1, 62, 63, 64, 65, 127, 128, 199] {
                    let mut values = vec![0.0f32; 200];
                    values[place] = special;
                    values[199] = special;
                    let expected = values.iter().position(|&v| breaks(v.into(), rules));
                    assert_eq!(
                        f32s(&values, rules),
                        expected,
                        "{special} at {place}, {rules:?}"
                    );
                    let wide: Vec<f64> = values.iter().map(|&v| v.into()).collect();
                    assert_eq!(
                        f64s(&wide, rules),
                        expected,
                        "{special} at {place}, {rules:?}"
                    );
                }
            }
        }
        assert_eq!(f32s(&[], &Rules::FINITE), None);
    }

    #[cfg(feature = "half")]
    #[test]
    #[cfg_attr(miri, ignore = "safe code, and half a million numbers")]
    fn every_half_is_judged_like_its_double() {
        for rules in &RULES {
            for bits in 0..=u16::MAX {
                let (f16, bf16) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
                let bad = |v: f64| breaks(v, rules).then_some(0);
                assert_eq!(f16s(&[f16], rules), bad(f16.to_f64()), "{f16} {rules:?}");
                assert_eq!(
                    bf16s(&[bf16], rules),
                    bad(bf16.to_f64()),
                    "{bf16} {rules:?}"
                );
            }
        }
    }
}
