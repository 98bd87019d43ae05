//! Finding the first number that breaks a rule.
//!
//! Every predicate is a comparison of integers (a float without its sign bit orders like an
//! integer; above the infinities are the NaNs) or of floats, without a branch, so that a block
//! of numbers is tested in vectors; only a block that holds a bad one is searched. A contract is
//! checked as often as its kernel runs, so the same code is compiled for wider vectors too.

use std::sync::OnceLock;

use super::Rules;

/// Numbers tested between two branches.
const BLOCK: usize = 64;

/// The first index of `values` that breaks `rules`.
pub(super) fn first_bad<T: Bits>(values: &[T], rules: &Rules) -> Option<usize> {
    Vectors::widest().first_bad(values, rules)
}

/// The vectors that numbers are tested in; [`usable`](Self::usable) alone hands out the wider ones.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Vectors {
    /// What every CPU of the target has.
    Target,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Vectors {
    /// The widest last.
    const ALL: &[Vectors] = &[
        Vectors::Target,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2,
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512,
    ];

    /// Those of [`ALL`](Self::ALL) that may be used on this CPU.
    fn usable() -> impl DoubleEndedIterator<Item = Vectors> {
        Vectors::ALL
            .iter()
            .copied()
            .filter(|vectors| match vectors {
                Vectors::Target => true,
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx2 => is_x86_feature_detected!("avx2"),
                // The first CPUs with AVX-512 clock down for it, the kernel that is checked included;
                // those with VBMI2 are later ones.
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx512 => {
                    is_x86_feature_detected!("avx512f")
                        && is_x86_feature_detected!("avx512bw")
                        && is_x86_feature_detected!("avx512vl")
                        && is_x86_feature_detected!("avx512vbmi2")
                }
            })
    }

    /// The widest that may be used; found out once.
    #[inline]
    fn widest() -> Vectors {
        static WIDEST: OnceLock<Vectors> = OnceLock::new();
        *WIDEST.get_or_init(|| Vectors::usable().next_back().unwrap_or(Vectors::Target))
    }

    fn first_bad<T: Bits>(self, values: &[T], rules: &Rules) -> Option<usize> {
        match self {
            Vectors::Target => scan(values, rules),
            // SAFETY: it came from `usable`: the CPU has what the function needs.
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx2 => unsafe { avx2(values, rules) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Vectors::Avx512 => unsafe { avx512(values, rules) },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<T: Bits>(values: &[T], rules: &Rules) -> Option<usize> {
    scan(values, rules)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn avx512<T: Bits>(values: &[T], rules: &Rules) -> Option<usize> {
    scan(values, rules)
}

/// The first index of `values` that breaks `rules`, in the vectors of who calls.
#[inline(always)]
fn scan<T: Bits>(values: &[T], rules: &Rules) -> Option<usize> {
    let Some(range) = rules.range else {
        return match (rules.no_nan, rules.no_inf) {
            (true, true) => first(values, |v| v.magnitude() >= T::INFINITY),
            (true, false) => first(values, |v| v.magnitude() > T::INFINITY),
            (false, true) => first(values, |v| v.magnitude() == T::INFINITY),
            (false, false) => None,
        };
    };
    let (low, high) = T::Compared::bounds(range);
    // Numbers out of bounds, infinities too: NaN is never less or greater.
    let outside = |v: T| {
        let v = v.compared();
        (v < low) | (v > high)
    };
    match (rules.no_nan, rules.no_inf) {
        (true, true) => first(values, |v| outside(v) | (v.magnitude() >= T::INFINITY)),
        (true, false) => first(values, |v| outside(v) | (v.magnitude() > T::INFINITY)),
        (false, true) => first(values, |v| outside(v) | (v.magnitude() == T::INFINITY)),
        (false, false) => first(values, outside),
    }
}

/// The first index whose number is bad.
#[inline(always)]
fn first<T: Copy>(values: &[T], bad: impl Fn(T) -> bool) -> Option<usize> {
    let any_bad = |block: &[T]| block.iter().fold(false, |any, &value| any | bad(value));
    let search = |block: &[T]| block.iter().position(|&value| bad(value));
    let (blocks, rest) = values.as_chunks::<BLOCK>();
    for (i, block) in blocks.iter().enumerate() {
        if any_bad(block) {
            return search(block).map(|at| i * BLOCK + at);
        }
    }
    if any_bad(rest) {
        return search(rest).map(|at| blocks.len() * BLOCK + at);
    }
    None
}

/// A float as the integer that it is stored as.
pub(super) trait Bits: Copy {
    type Magnitude: Ord;
    /// The infinities' bits without the sign.
    const INFINITY: Self::Magnitude;
    /// The bits without the sign: ordered like the numbers, above the infinities the NaNs.
    fn magnitude(self) -> Self::Magnitude;

    /// The type that ranges are compared in, which holds all numbers of this one.
    type Compared: Bounds + PartialOrd + Copy;
    fn compared(self) -> Self::Compared;
}

macro_rules! bits {
    ($t:ty, $int:ty, $infinity:expr, $compared:ty) => {
        impl Bits for $t {
            type Magnitude = $int;
            const INFINITY: $int = $infinity;
            #[inline(always)]
            fn magnitude(self) -> $int {
                (self.to_bits() as $int) & <$int>::MAX
            }

            type Compared = $compared;
            #[inline(always)]
            fn compared(self) -> $compared {
                self.into()
            }
        }
    };
}
bits!(f32, i32, 0x7f80_0000, f32);
bits!(f64, i64, 0x7ff0_0000_0000_0000, f64);
#[cfg(feature = "half")]
bits!(half::f16, i16, 0x7c00, f32);
#[cfg(feature = "half")]
bits!(half::bf16, i16, 0x7f80, f32);

/// A range in the type that is compared in.
pub(super) trait Bounds: Sized {
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

    /// What all the vectors of this machine find, which is one.
    fn found<T: Bits>(values: &[T], rules: &Rules) -> Option<usize> {
        let narrow = Vectors::Target.first_bad(values, rules);
        for vectors in Vectors::usable() {
            assert_eq!(vectors.first_bad(values, rules), narrow, "{vectors:?}");
        }
        narrow
    }

    /// Each special value at each place of a slice that spans blocks.
    #[test]
    #[cfg_attr(miri, ignore = "half a million numbers, and no wide vectors there")]
    fn the_first_bad_number_is_found() {
        for rules in &RULES {
            for special in specials() {
                for place in [0, 1, 62, 63, 64, 65, 127, 128, 199] {
                    let mut values = vec![0.0f32; 200];
                    values[place] = special;
                    values[199] = special;
                    let expected = values.iter().position(|&v| breaks(v.into(), rules));
                    assert_eq!(
                        found(&values, rules),
                        expected,
                        "{special} at {place}, {rules:?}"
                    );
                    let wide: Vec<f64> = values.iter().map(|&v| v.into()).collect();
                    assert_eq!(
                        found(&wide, rules),
                        expected,
                        "{special} at {place}, {rules:?}"
                    );
                }
            }
        }
        assert_eq!(found::<f32>(&[], &Rules::FINITE), None);
        assert_eq!(Vectors::usable().last(), Some(Vectors::widest()));
    }

    #[cfg(feature = "half")]
    #[test]
    #[cfg_attr(miri, ignore = "half a million numbers, and no wide vectors there")]
    fn every_half_is_judged_like_its_double() {
        for rules in &RULES {
            for bits in 0..=u16::MAX {
                let (f16, bf16) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
                let bad = |v: f64| breaks(v, rules).then_some(0);
                assert_eq!(found(&[f16], rules), bad(f16.to_f64()), "{f16} {rules:?}");
                assert_eq!(
                    found(&[bf16], rules),
                    bad(bf16.to_f64()),
                    "{bf16} {rules:?}"
                );
            }
        }
    }
}
