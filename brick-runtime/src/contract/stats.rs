//! Statistics of a tensor's numbers.

use std::fmt;

use super::{Check, Checker, Number, Rules};

/// Statistics of a tensor: of its finite numbers, and how many are not.
///
/// `min`, `max`, `mean` and `std` (of the population) are NaN where no number is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TensorStats {
    /// The least finite number.
    pub min: f32,
    /// The greatest finite number.
    pub max: f32,
    /// Mean of the finite numbers.
    pub mean: f32,
    /// Standard deviation of the finite numbers.
    pub std: f32,
    /// How many are NaN.
    pub nan_count: usize,
    /// How many are infinite.
    pub inf_count: usize,
}

impl TensorStats {
    /// Of all numbers in `value`.
    ///
    /// ```
    /// use brick_runtime::TensorStats;
    /// let stats = TensorStats::of(&[1.0f32, 3.0, f32::NAN][..]);
    /// assert_eq!((stats.min, stats.max, stats.mean, stats.std), (1.0, 3.0, 2.0, 1.0));
    /// assert_eq!((stats.nan_count, stats.inf_count), (1, 0));
    /// ```
    #[must_use]
    pub fn of<T: Check + ?Sized>(value: &T) -> TensorStats {
        let mut checker = Checker::measure(const { &Rules::FINITE }, None);
        value.check(&mut checker);
        checker.into_stats()
    }
}

/// `min -1, max 2.5, mean 0.25, std 0.5; 1 NaN, 0 infinite`: the second half only where some are not
/// finite, the first as `no finite number` where none is. Numbers have all digits; with a precision
/// (`{:.4}`) so many decimals, or as an exponent where that would show little of them.
impl fmt::Display for TensorStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mean.is_nan() {
            f.write_str("no finite number")?;
        } else {
            let named = [
                ("min", self.min),
                ("max", self.max),
                ("mean", self.mean),
                ("std", self.std),
            ];
            for (at, (name, value)) in named.into_iter().enumerate() {
                let comma = if at == 0 { "" } else { ", " };
                write!(f, "{comma}{name} ")?;
                number(value, f)?;
            }
        }
        let (nan, inf) = (self.nan_count, self.inf_count);
        match (nan, inf) {
            (0, 0) => Ok(()),
            _ => write!(f, "; {nan} NaN, {inf} infinite"),
        }
    }
}

fn number(value: f32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(decimals) = f.precision() else {
        return write!(f, "{value}");
    };
    let shown = 10f32.powi(1 - i32::try_from(decimals).unwrap_or(i32::MAX));
    match value.abs() {
        0.0 => write!(f, "{value:.decimals$}"),
        size if (shown..1e5).contains(&size) => write!(f, "{value:.decimals$}"),
        _ => write!(f, "{value:.*e}", decimals.saturating_sub(1)),
    }
}

/// Welford's running mean and sum of squared deviations: no cancellation for numbers far from 0.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    finite: u64,
    mean: f64,
    squares: f64,
    min: f64,
    max: f64,
    nan: usize,
    inf: usize,
}

impl Moments {
    pub(super) const NONE: Moments = Moments {
        finite: 0,
        mean: 0.0,
        squares: 0.0,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
        nan: 0,
        inf: 0,
    };

    pub(super) fn add(&mut self, value: f64) {
        if value.is_nan() {
            self.nan += 1;
        } else if value.is_infinite() {
            self.inf += 1;
        } else {
            self.finite += 1;
            let off = value - self.mean;
            self.mean += off / self.finite as f64;
            self.squares += off * (value - self.mean);
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        }
    }

    /// All of some numbers, one after the other.
    pub(super) fn add_each<T: Number>(&mut self, values: &[T]) {
        values.iter().for_each(|value| self.add(value.to_f64()));
    }

    /// All of some numbers, in one pass, a block at a time in vectors.
    ///
    /// Deviations are taken from one of the numbers, `p`, and summed in f64. As `p` is one of the
    /// `n`, `|p - mean| <= sqrt(n) * std`: subtracting the mean's share from the squares loses no
    /// more than a factor `n` of f64's precision, however far from 0 the numbers lie.
    pub(super) fn add_f32s(&mut self, values: &[f32]) {
        let Some(pivot) = values.iter().copied().find(|v| v.is_finite()) else {
            values.iter().for_each(|&value| self.add(value.into()));
            return;
        };
        let mut sums = Sums::NONE;
        for block in values.chunks(BLOCK) {
            // No f64 sum of f32 overflows: it is finite unless one of the numbers is not.
            match Sums::of(block, f64::from(pivot)) {
                all if all.off.is_finite() => sums.merge(&all),
                _ => block.iter().for_each(|&value| self.add(value.into())),
            }
        }
        if sums.count > 0 {
            self.merge(&sums.moments(f64::from(pivot)));
        }
    }

    /// Both together (Chan, Golub & LeVeque, 1979).
    fn merge(&mut self, other: &Moments) {
        let both = self.finite + other.finite;
        let off = other.mean - self.mean;
        let share = other.finite as f64 / both as f64;
        self.squares += other.squares + off * off * share * self.finite as f64;
        self.mean += off * share;
        self.finite = both;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.nan += other.nan;
        self.inf += other.inf;
    }

    pub(super) fn stats(&self) -> TensorStats {
        let known = |value: f64| {
            if self.finite > 0 {
                value as f32
            } else {
                f32::NAN
            }
        };
        TensorStats {
            min: known(self.min),
            max: known(self.max),
            mean: known(self.mean),
            std: known((self.squares / self.finite as f64).sqrt()),
            nan_count: self.nan,
            inf_count: self.inf,
        }
    }
}

/// Numbers summed before it is asked whether all are finite.
const BLOCK: usize = 256;
/// Independent sums: as many as keep the adders of a 128-bit vector unit busy.
const LANES: usize = 8;

/// Sums over finite numbers, of their deviations from a pivot.
struct Sums {
    count: u64,
    off: f64,
    squares: f64,
    min: f32,
    max: f32,
}

impl Sums {
    const NONE: Sums = Sums {
        count: 0,
        off: 0.0,
        squares: 0.0,
        min: f32::INFINITY,
        max: f32::NEG_INFINITY,
    };

    /// Of some numbers; `off` is not finite if one of them is not.
    fn of(values: &[f32], pivot: f64) -> Sums {
        let (mut off, mut squares) = ([0.0f64; LANES], [0.0f64; LANES]);
        let (mut min, mut max) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES]);
        let mut add = |lane: usize, value: f32| {
            let d = f64::from(value) - pivot;
            off[lane] += d;
            squares[lane] += d * d;
            // Not `f32::min`: its care for NaN takes several instructions.
            min[lane] = if value < min[lane] { value } else { min[lane] };
            max[lane] = if value > max[lane] { value } else { max[lane] };
        };
        let (whole, rest) = values.as_chunks::<LANES>();
        for eight in whole {
            for (lane, &value) in eight.iter().enumerate() {
                add(lane, value);
            }
        }
        for (lane, &value) in rest.iter().enumerate() {
            add(lane, value);
        }
        Sums {
            count: values.len() as u64,
            off: off.iter().sum(),
            squares: squares.iter().sum(),
            min: min.into_iter().fold(f32::INFINITY, f32::min),
            max: max.into_iter().fold(f32::NEG_INFINITY, f32::max),
        }
    }

    fn merge(&mut self, other: &Sums) {
        self.count += other.count;
        self.off += other.off;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    fn moments(&self, pivot: f64) -> Moments {
        let n = self.count as f64;
        Moments {
            finite: self.count,
            mean: pivot + self.off / n,
            // Rounding can make it negative where all numbers are the same.
            squares: (self.squares - self.off * self.off / n).max(0.0),
            min: self.min.into(),
            max: self.max.into(),
            ..Moments::NONE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the two-pass formula, far from zero.
    #[test]
    fn moments_are_the_textbooks() {
        let values: Vec<f32> = (0..1000)
            .map(|i| 1e4 + ((i * 37) % 101) as f32 / 8.0)
            .collect();
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / 1000.0;
        let square = values
            .iter()
            .map(|&v| f64::from(v) - mean)
            .map(|deviation| deviation * deviation)
            .sum::<f64>()
            / 1000.0;
        let stats = TensorStats::of(&values);
        assert_eq!((stats.mean, stats.std), (mean as f32, square.sqrt() as f32));
        assert_eq!((stats.min, stats.max), (1e4, 1e4 + 12.5));
    }

    /// Whole and broken blocks, bad numbers anywhere, a pivot far out: against one number at a time.
    #[test]
    fn a_slice_is_measured_as_its_numbers_are() {
        let value = |i: usize| ((i * 7919) % 1009) as f32 / 64.0 - 7.0;
        for len in [1, 7, 8, 255, 256, 257, 1000, 4096] {
            for (at, special) in [
                (0, f32::NAN),
                (len / 2, f32::INFINITY),
                (len - 1, f32::NEG_INFINITY),
                (0, -3e7),
                (len / 2, f32::MAX),
                (len - 1, 0.0),
            ] {
                let mut values: Vec<f32> = (0..len).map(value).collect();
                values[at] = special;
                let mut one_by_one = Moments::NONE;
                values.iter().for_each(|&v| one_by_one.add(v.into()));
                let (fast, slow) = (TensorStats::of(&values), one_by_one.stats());
                let same = |a: f32, b: f32| a == b || a.is_nan() && b.is_nan();
                assert_eq!(
                    (fast.nan_count, fast.inf_count),
                    (slow.nan_count, slow.inf_count)
                );
                assert!(
                    same(fast.min, slow.min) && same(fast.max, slow.max),
                    "{len} {special}"
                );
                for (fast, slow) in [(fast.mean, slow.mean), (fast.std, slow.std)] {
                    let near = (fast - slow).abs() <= 2.0 * f32::EPSILON * slow.abs().max(1e-6);
                    assert!(near || same(fast, slow), "{len} {special}: {fast} {slow}");
                }
            }
        }
        // Equal numbers have no deviation, whatever their sum rounds to.
        let same = TensorStats::of(&vec![0.1f32; 1001]);
        assert_eq!((same.mean, same.std), (0.1, 0.0));
        assert!(TensorStats::of(&Vec::<f32>::new()).mean.is_nan());
    }

    #[test]
    fn shown_in_one_line() {
        let stats = TensorStats::of(&[-1.0f32, 0.0, 2.5, f32::NAN][..]);
        assert_eq!(
            stats.to_string(),
            "min -1, max 2.5, mean 0.5, std 1.4719602; 1 NaN, 0 infinite"
        );
        let wide = TensorStats::of(&[0.0005f32, 123_456.0][..]);
        assert_eq!(
            format!("{wide:.4}"),
            "min 5.000e-4, max 1.235e5, mean 61728.0000, std 61728.0000"
        );
        let none = TensorStats::of(&[f32::INFINITY][..]);
        assert_eq!(none.to_string(), "no finite number; 0 NaN, 1 infinite");
    }

    #[test]
    fn what_is_not_finite_is_counted_apart() {
        let stats = TensorStats::of(&vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        assert!(
            stats.min.is_nan() && stats.max.is_nan() && stats.mean.is_nan() && stats.std.is_nan()
        );
        assert_eq!((stats.nan_count, stats.inf_count), (1, 2));
    }
}
