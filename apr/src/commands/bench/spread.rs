//! Repeated measurements in a few numbers.

use serde::{Serialize, Serializer};

/// Samples of one quantity, their median and quartiles.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spread {
    /// In the order in which they were taken; at least one.
    samples: Vec<f64>,
    /// From what they are derived; `None` if they are measured.
    from: Option<&'static str>,
}

impl Spread {
    /// Read off a clock.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn measured(samples: Vec<f64>) -> Self {
        assert!(!samples.is_empty(), "a spread of nothing");
        let from = None;
        Self { samples, from }
    }

    /// Each sample turned into another quantity.
    pub(super) fn derive(&self, from: &'static str, each: impl Fn(f64) -> f64) -> Self {
        Self {
            samples: self.samples.iter().copied().map(each).collect(),
            from: Some(from),
        }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.samples.len()
    }

    /// All of them together.
    pub(super) fn sum(&self) -> f64 {
        self.samples.iter().sum()
    }

    /// The middle one, or the mean of the two in the middle.
    pub(super) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Below and above which a quarter lies.
    pub(super) fn quartiles(&self) -> [f64; 2] {
        [0.25, 0.75].map(|q| self.quantile(q))
    }

    /// Between samples on a straight line, as numpy and R do by default (Hyndman & Fan, 1996, type 7).
    fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = q * (sorted.len() - 1) as f64;
        let (below, above) = (
            sorted[place.floor() as usize],
            sorted[place.ceil() as usize],
        );
        below + (above - below) * place.fract()
    }
}

/// `{"median", "q1", "q3", "samples", "provenance"}`, with `"from"` where it is derived.
impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let [q1, q3] = self.quartiles();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("median", &self.median())?;
        map.serialize_entry("q1", &q1)?;
        map.serialize_entry("q3", &q3)?;
        map.serialize_entry("samples", &self.samples)?;
        match self.from {
            None => map.serialize_entry("provenance", "measured")?,
            Some(from) => {
                map.serialize_entry("provenance", "derived")?;
                map.serialize_entry("from", from)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    /// Against `numpy.percentile(samples, [25, 50, 75])`.
    #[test]
    fn quartiles_are_numpys() {
        for (samples, expected) in [
            (&[7.0][..], [7.0, 7.0, 7.0]),
            (&[3.0, 1.0], [1.5, 2.0, 2.5]),
            (&[4.0, 1.0, 3.0, 2.0], [1.75, 2.5, 3.25]),
            (&[5.0, 1.0, 9.0, 2.0, 4.0], [2.0, 4.0, 5.0]),
        ] {
            let spread = Spread::measured(samples.to_vec());
            let [q1, q3] = spread.quartiles();
            assert_eq!([q1, spread.median(), q3], expected);
        }
    }

    #[test]
    fn what_is_derived_says_from_what() {
        let ms = Spread::measured(vec![4.0, 2.0]);
        let rate = ms.derive("1000 / ms", |ms| 1e3 / ms);
        assert_eq!(rate.samples, [250.0, 500.0]);
        assert_eq!((ms.from, rate.from), (None, Some("1000 / ms")));
    }
}
