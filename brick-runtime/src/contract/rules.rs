//! What an `assert` asks of numbers.

/// The numeric rules of one `assert`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// No NaN.
    pub no_nan: bool,
    /// No infinity.
    pub no_inf: bool,
    /// Every value (that is no NaN) lies in `[a, b]`.
    pub range: Option<(f64, f64)>,
}

impl Rules {
    /// `"no_nan"`.
    pub const NO_NAN: Rules = Rules {
        no_nan: true,
        no_inf: false,
        range: None,
    };
    /// `"no_inf"`.
    pub const NO_INF: Rules = Rules {
        no_nan: false,
        no_inf: true,
        range: None,
    };
    /// `"finite"`.
    pub const FINITE: Rules = Rules {
        no_nan: true,
        no_inf: true,
        range: None,
    };
    /// `"range(a, b)"`.
    #[must_use]
    pub const fn range(a: f64, b: f64) -> Rules {
        Rules {
            no_nan: false,
            no_inf: false,
            range: Some((a, b)),
        }
    }
    /// With `"range(a, b)"` on top.
    #[must_use]
    pub const fn within(self, a: f64, b: f64) -> Rules {
        self.and(Rules::range(a, b))
    }
    /// Both.
    #[must_use]
    pub const fn and(self, other: Rules) -> Rules {
        Rules {
            no_nan: self.no_nan || other.no_nan,
            no_inf: self.no_inf || other.no_inf,
            range: match (self.range, other.range) {
                (Some((a, b)), Some((c, d))) => {
                    Some((if a > c { a } else { c }, if b < d { b } else { d }))
                }
                (Some(r), None) | (None, Some(r)) => Some(r),
                (None, None) => None,
            },
        }
    }
}
