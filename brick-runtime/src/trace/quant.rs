//! What quantisation costs: the distance of numbers from what they stand for.

use super::ModelTraceError;
use crate::Figure;

/// Compares numbers with what they stand for, a piece at a time, in sums of `f64`.
///
/// `x` is the reference, `y` what quantisation made of it. A pair in which either is NaN or infinite
/// is left out of every figure and counted.
///
/// ```
/// use brick_runtime::trace::QuantError;
/// let mut error = QuantError::default();
/// error.add(&[3.0, 4.0], &[3.0, 3.0])?;
/// assert_eq!((error.mse().value(), error.max_abs().value()), (Some(0.5), Some(1.0)));
/// assert_eq!(error.snr_db().value(), Some(10.0 * 25f64.log10()));
/// # Ok::<(), brick_runtime::trace::ModelTraceError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QuantError {
    compared: u64,
    not_finite: u64,
    max_abs: f64,
    /// Σ x², Σ y², Σ xy, Σ (x - y)².
    xx: f64,
    yy: f64,
    xy: f64,
    noise: f64,
}

const NOTHING: &str = "nothing finite to compare";

impl QuantError {
    /// Takes the next piece.
    ///
    /// # Errors
    /// [`ModelTraceError::Lengths`] if the two differ in length; nothing is taken then.
    pub fn add(&mut self, reference: &[f32], quantised: &[f32]) -> Result<(), ModelTraceError> {
        if reference.len() != quantised.len() {
            return Err(ModelTraceError::Lengths {
                reference: reference.len(),
                quantised: quantised.len(),
            });
        }
        for (&x, &y) in reference.iter().zip(quantised) {
            let (x, y) = (f64::from(x), f64::from(y));
            // Of finite f32 no square and no product overflows an f64.
            if !(x.is_finite() && y.is_finite()) {
                self.not_finite += 1;
                continue;
            }
            self.compared += 1;
            let off = x - y;
            self.max_abs = self.max_abs.max(off.abs());
            self.noise += off * off;
            self.xx += x * x;
            self.yy += y * y;
            self.xy += x * y;
        }
        Ok(())
    }

    /// Takes all that `other` took.
    pub fn merge(&mut self, other: &Self) {
        self.compared += other.compared;
        self.not_finite += other.not_finite;
        self.max_abs = self.max_abs.max(other.max_abs);
        self.noise += other.noise;
        self.xx += other.xx;
        self.yy += other.yy;
        self.xy += other.xy;
    }

    /// Pairs that were compared.
    #[must_use]
    pub fn compared(&self) -> u64 {
        self.compared
    }

    /// Pairs left out because one of the two is NaN or infinite.
    #[must_use]
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// `Σ (x - y)² / n`
    #[must_use]
    pub fn mse(&self) -> Figure {
        match self.compared {
            0 => Figure::unavailable(NOTHING),
            n => derived(self.noise / n as f64, "Σ(x - y)² / n"),
        }
    }

    /// `max |x - y|`
    #[must_use]
    pub fn max_abs(&self) -> Figure {
        match self.compared {
            0 => Figure::unavailable(NOTHING),
            _ => derived(self.max_abs, "max |x - y|"),
        }
    }

    /// `Σ xy / √(Σ x² Σ y²)`: 1 for the same direction. Unavailable where either is all zeros.
    #[must_use]
    pub fn cosine(&self) -> Figure {
        let from = "Σxy / √(Σx² Σy²)";
        match self.compared {
            0 => Figure::unavailable(NOTHING),
            _ if self.xx == 0.0 => Figure::unavailable("the reference is all zeros"),
            _ if self.yy == 0.0 => Figure::unavailable("quantised, it is all zeros"),
            // Two roots: the product of the sums could leave the range.
            _ => derived(self.xy / self.xx.sqrt() / self.yy.sqrt(), from),
        }
    }

    /// The signal-to-noise ratio, `10 log₁₀(Σ x² / Σ (x - y)²)` in dB. Unavailable where there is
    /// no noise or no signal.
    #[must_use]
    pub fn snr_db(&self) -> Figure {
        match self.compared {
            0 => Figure::unavailable(NOTHING),
            _ if self.noise == 0.0 => Figure::unavailable("exact: there is no noise"),
            _ if self.xx == 0.0 => Figure::unavailable("the reference is all zeros"),
            _ => derived(
                10.0 * (self.xx / self.noise).log10(),
                "10 log10(Σx² / Σ(x - y)²)",
            ),
        }
    }

    /// Whether both were the same number everywhere, of all that could be compared.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.compared > 0 && self.noise == 0.0
    }

    /// What ranks the worst first when sorted by it: the SNR; a signal of zeros that got noise
    /// before all, what is exact after all, what was not compared last.
    #[must_use]
    pub fn badness(&self) -> (u8, f64) {
        match self.snr_db().value() {
            Some(snr) => (1, snr),
            None if self.compared == 0 => (3, 0.0),
            None if self.is_exact() => (2, 0.0),
            None => (0, 0.0),
        }
    }
}

fn derived(value: f64, from: &'static str) -> Figure {
    Figure::Derived { value, from }
}

/// `{"compared": …, "not_finite": …, "mse": …, "max_abs": …, "cosine": …, "snr_db": …}`, the last
/// four with their provenance.
#[cfg(feature = "serde")]
impl serde::Serialize for QuantError {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("QuantError", 6)?;
        fields.serialize_field("compared", &self.compared)?;
        fields.serialize_field("not_finite", &self.not_finite)?;
        fields.serialize_field("mse", &self.mse())?;
        fields.serialize_field("max_abs", &self.max_abs())?;
        fields.serialize_field("cosine", &self.cosine())?;
        fields.serialize_field("snr_db", &self.snr_db())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reference: &[f32], quantised: &[f32]) -> QuantError {
        let mut error = QuantError::default();
        error.add(reference, quantised).unwrap();
        error
    }

    /// By hand: x = (3, 0, 4), y = (3, 1, 2): noise 0 + 1 + 4, Σx² 25, Σy² 14, Σxy 17.
    #[test]
    fn figures_by_hand() {
        let error = of(&[3.0, 0.0, 4.0], &[3.0, 1.0, 2.0]);
        assert_eq!(error.mse().value(), Some(5.0 / 3.0));
        assert_eq!(error.max_abs().value(), Some(2.0));
        let cosine = error.cosine().value().unwrap();
        assert!((cosine - 17.0 / (25f64 * 14.0).sqrt()).abs() < 1e-15);
        assert!((error.snr_db().value().unwrap() - 10.0 * 5f64.log10()).abs() < 1e-12);
    }

    #[test]
    fn what_has_no_value_says_why() {
        let exact = of(&[1.0, 2.0], &[1.0, 2.0]);
        assert_eq!(exact.mse().value(), Some(0.0));
        assert_eq!(exact.snr_db().value(), None);
        assert!(exact.is_exact());
        let cosine = exact.cosine().value().unwrap();
        assert!((cosine - 1.0).abs() < 1e-15, "{cosine}");
        let silent = of(&[0.0, 0.0], &[0.0, 1.0]);
        for figure in [silent.snr_db(), silent.cosine()] {
            assert_eq!(
                figure.provenance(),
                "unavailable: the reference is all zeros"
            );
        }
        let lost = of(&[1.0], &[0.0]);
        assert_eq!(lost.snr_db().value(), Some(0.0));
        assert_eq!(lost.cosine().value(), None);
        let nothing = QuantError::default();
        let figures = [
            nothing.mse(),
            nothing.max_abs(),
            nothing.cosine(),
            nothing.snr_db(),
        ];
        assert!(figures.iter().all(|figure| figure.value().is_none()));
        assert!(!nothing.is_exact());
    }

    #[test]
    fn what_is_not_finite_is_counted_and_left_out() {
        let error = of(
            &[1.0, f32::NAN, 2.0, f32::INFINITY],
            &[1.0, 0.0, f32::NEG_INFINITY, 0.0],
        );
        assert_eq!((error.compared(), error.not_finite()), (1, 3));
        assert_eq!(error.max_abs().value(), Some(0.0));
    }

    /// The largest and the least numbers there are stay in range.
    #[test]
    fn no_sum_overflows() {
        let error = of(&[f32::MAX; 64], &[f32::MIN; 64]);
        assert!((error.cosine().value().unwrap() + 1.0).abs() < 1e-12);
        let snr = error.snr_db().value().unwrap();
        assert!((snr - 10.0 * 0.25f64.log10()).abs() < 1e-12);
        let least = f32::from_bits(1);
        let tiny = of(&[least; 64], &[2.0 * least; 64]);
        assert!((tiny.cosine().value().unwrap() - 1.0).abs() < 1e-12);
        assert!(tiny.snr_db().value().unwrap().abs() < 1e-12);
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let x: Vec<f32> = (0..100).map(|i| (i as f32 * 0.37).sin()).collect();
        let y: Vec<f32> = x.iter().map(|v| (v * 8.0).round() / 8.0).collect();
        let (mut first, second) = (of(&x[..33], &y[..33]), of(&x[33..], &y[33..]));
        first.merge(&second);
        let whole = of(&x, &y);
        assert_eq!(first.compared(), whole.compared());
        assert_eq!(first.max_abs(), whole.max_abs());
        for (parts, whole) in [
            (first.mse(), whole.mse()),
            (first.snr_db(), whole.snr_db()),
            (first.cosine(), whole.cosine()),
        ] {
            let (parts, whole) = (parts.value().unwrap(), whole.value().unwrap());
            assert!((parts / whole - 1.0).abs() < 1e-12, "{parts} {whole}");
        }
    }

    #[test]
    fn lengths_must_match() {
        let mut error = QuantError::default();
        assert!(error.add(&[1.0], &[1.0, 2.0]).is_err());
        assert_eq!(error, QuantError::default());
    }

    #[test]
    fn the_worst_comes_first() {
        let noise_only = of(&[0.0], &[1.0]);
        let (bad, good) = (of(&[1.0], &[0.5]), of(&[1.0], &[0.99]));
        let (exact, nothing) = (of(&[1.0], &[1.0]), QuantError::default());
        let order = [noise_only, bad, good, exact, nothing].map(|error| error.badness());
        assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
    }
}
