//! Statistics of a tensor's numbers.

use super::{Check, Checker, Rules};

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

/// Welford's running mean and sum of squared deviations: no cancellation for numbers far from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
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
            .map(|&v| (f64::from(v) - mean).powi(2))
            .sum::<f64>()
            / 1000.0;
        let stats = TensorStats::of(&values);
        assert_eq!((stats.mean, stats.std), (mean as f32, square.sqrt() as f32));
        assert_eq!((stats.min, stats.max), (1e4, 1e4 + 12.5));
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
