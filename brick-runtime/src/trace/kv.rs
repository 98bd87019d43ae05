//! How large the rows of a key-value cache are.

use super::ModelTraceError;

/// Lengths (L2 norms, `√Σ x²`) of rows, taken a piece at a time. For a key-value cache a row is one
/// head's key or value at one position.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowNorms {
    rows: u64,
    not_finite: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl RowNorms {
    /// Takes the next rows of `width` elements. A row that holds NaN or an infinity has no norm: it is
    /// counted and left out.
    ///
    /// # Errors
    /// [`ModelTraceError::Rows`] if `rows` is not whole rows; nothing is taken then.
    pub fn add(&mut self, rows: &[f32], width: usize) -> Result<(), ModelTraceError> {
        if width == 0 || !rows.len().is_multiple_of(width) {
            return Err(ModelTraceError::Rows {
                len: rows.len(),
                width,
            });
        }
        for row in rows.chunks_exact(width) {
            let squares = row.iter().map(|&x| f64::from(x) * f64::from(x));
            let norm = squares.sum::<f64>().sqrt();
            if !norm.is_finite() {
                self.not_finite += 1;
                continue;
            }
            let (least, most) = match self.rows {
                0 => (norm, norm),
                _ => (self.min, self.max),
            };
            self.min = least.min(norm);
            self.max = most.max(norm);
            self.sum += norm;
            self.rows += 1;
        }
        Ok(())
    }

    /// Rows that have a norm.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows left out because they hold NaN or an infinity.
    #[must_use]
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// The mean norm; `None` without rows.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.rows > 0).then(|| self.sum / self.rows as f64)
    }

    /// The least norm; `None` without rows.
    #[must_use]
    pub fn min(&self) -> Option<f64> {
        (self.rows > 0).then_some(self.min)
    }

    /// The largest norm; `None` without rows.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        (self.rows > 0).then_some(self.max)
    }
}

/// `{"rows": …, "not_finite": …, "mean": …, "min": …, "max": …}`, null where there are no rows.
#[cfg(feature = "serde")]
impl serde::Serialize for RowNorms {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("RowNorms", 5)?;
        fields.serialize_field("rows", &self.rows)?;
        fields.serialize_field("not_finite", &self.not_finite)?;
        fields.serialize_field("mean", &self.mean())?;
        fields.serialize_field("min", &self.min())?;
        fields.serialize_field("max", &self.max())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn norms_by_hand() {
        let mut norms = RowNorms::default();
        norms.add(&[3.0, 4.0, 0.0, 0.0], 2).unwrap();
        norms.add(&[-5.0, 12.0], 2).unwrap();
        assert_eq!(norms.rows(), 3);
        assert_eq!(
            (norms.min(), norms.mean(), norms.max()),
            (Some(0.0), Some(6.0), Some(13.0))
        );
    }

    #[test]
    fn no_rows_have_no_norm_and_bad_ones_are_counted() {
        let mut norms = RowNorms::default();
        assert_eq!((norms.min(), norms.mean(), norms.max()), (None, None, None));
        norms.add(&[f32::NAN, 1.0, 2.0, f32::INFINITY], 2).unwrap();
        assert_eq!((norms.rows(), norms.not_finite()), (0, 2));
        assert_eq!(norms.mean(), None);
        norms.add(&[f32::MAX, f32::MAX], 2).unwrap();
        let expected = f64::from(f32::MAX) * 2f64.sqrt();
        assert!((norms.mean().unwrap() / expected - 1.0).abs() < 1e-15);
    }

    #[test]
    fn rows_must_be_whole() {
        let mut norms = RowNorms::default();
        assert!(norms.add(&[1.0; 3], 2).is_err());
        assert!(norms.add(&[1.0; 3], 0).is_err());
        assert_eq!(norms, RowNorms::default());
    }
}
