//! Several measurements of one thing.

/// A rate that was measured several times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The one in the middle.
    pub median: f64,
    /// A quarter of them are not above this.
    pub low: f64,
    /// A quarter of them are not below this.
    pub high: f64,
    /// The largest.
    pub best: f64,
    /// How many there are.
    pub repeats: usize,
}

impl Spread {
    /// Of `rates`, of which there is at least one; between two of them in proportion (type 7 of Hyndman
    /// and Fan, "Sample quantiles in statistical packages", 1996: numpy's default).
    pub(super) fn of(mut rates: Vec<f64>) -> Spread {
        rates.sort_by(f64::total_cmp);
        let quantile = |q: f64| {
            let at = q * (rates.len() - 1) as f64;
            let (below, part) = (at.floor() as usize, at.fract());
            let above = (below + 1).min(rates.len() - 1);
            rates[below] + part * (rates[above] - rates[below])
        };
        Spread {
            median: quantile(0.5),
            low: quantile(0.25),
            high: quantile(0.75),
            best: quantile(1.0),
            repeats: rates.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.percentile([4, 1, 9, 7], [25, 50, 75])` is `[3.25, 5.5, 7.5]`.
    #[test]
    fn quartiles_are_numpys() {
        let spread = Spread::of(vec![4.0, 1.0, 9.0, 7.0]);
        assert_eq!((spread.low, spread.median, spread.high), (3.25, 5.5, 7.5));
        assert_eq!((spread.best, spread.repeats), (9.0, 4));
        let one = Spread::of(vec![2.0]);
        assert_eq!((one.low, one.median, one.high), (2.0, 2.0, 2.0));
        assert_eq!((one.best, one.repeats), (2.0, 1));
    }
}
