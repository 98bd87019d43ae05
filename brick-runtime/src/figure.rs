//! A number that says where it comes from.

use std::borrow::Cow;
use std::fmt;

/// A figure with its provenance. Absent is absent, never 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Figure {
    /// Read off a clock or counted.
    Measured(f64),
    /// Computed, not measured as such.
    Derived {
        /// The value.
        value: f64,
        /// From what: `"declared flops / measured time"`.
        from: &'static str,
    },
    /// Not known.
    Unavailable(Cow<'static, str>),
}

impl Figure {
    /// Not known, because of `why`.
    #[must_use]
    pub fn unavailable(why: impl Into<Cow<'static, str>>) -> Figure {
        Figure::Unavailable(why.into())
    }

    /// The value, if it is known and a number.
    #[must_use]
    pub fn value(&self) -> Option<f64> {
        match *self {
            Figure::Measured(value) | Figure::Derived { value, .. } if value.is_finite() => {
                Some(value)
            }
            _ => None,
        }
    }

    /// `measured`, `derived from …` or `unavailable: …`.
    #[must_use]
    pub fn provenance(&self) -> String {
        match self {
            Figure::Measured(_) => "measured".into(),
            Figure::Derived { from, .. } => format!("derived from {from}"),
            Figure::Unavailable(why) => format!("unavailable: {why}"),
        }
    }
}

/// The value with the formatter's precision, or `n/a`.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value() {
            Some(value) => value.fmt(f),
            // Not `pad`: a precision would cut it.
            None => write!(f, "{:>1$}", "n/a", f.width().unwrap_or(0)),
        }
    }
}

/// `{"value": 1.5, "provenance": "measured"}`; with `"from"` if derived; with a null value and
/// `"why"` if unavailable.
#[cfg(feature = "serde")]
impl serde::Serialize for Figure {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("value", &self.value())?;
        match self {
            Figure::Measured(_) => map.serialize_entry("provenance", "measured")?,
            Figure::Derived { from, .. } => {
                map.serialize_entry("provenance", "derived")?;
                map.serialize_entry("from", from)?;
            }
            Figure::Unavailable(why) => {
                map.serialize_entry("provenance", "unavailable")?;
                map.serialize_entry("why", why)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precision_cuts_numbers_and_not_words() {
        let absent = Figure::unavailable("no clock");
        assert_eq!(
            format!("{:.1}|{absent:.1}|{absent:6.1}", Figure::Measured(1.25)),
            "1.2|n/a|   n/a"
        );
        assert_eq!(Figure::Measured(f64::NAN).value(), None);
    }
}
