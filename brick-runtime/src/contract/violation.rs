//! A contract that does not hold.

use std::fmt;

use super::{Found, Rules, TensorStats};
use crate::registry::BrickInfo;

/// A contract that does not hold: where, and what was found.
///
/// With [`Policy::Stop`](super::Policy::Stop) it is the payload of a panic:
/// `payload.downcast_ref::<Violation>()`.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Violation {
    /// The brick whose contract it is.
    pub brick: &'static BrickInfo,
    /// The layer that its call was in, if any.
    pub layer: Option<u64>,
    /// The position in the sequence, if the program told it (`position_scope`).
    pub position: Option<u64>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Fault {
    /// A number breaks an `assert`.
    Number {
        /// The parameter's name, or `return`; `cache.keys` for a part of it.
        tensor: String,
        /// The first bad element, counted over all numbers of the tensor.
        index: usize,
        /// Its value.
        value: f64,
        /// The rule that it breaks: `no_nan`, `no_inf`, `range(0, 1)`.
        rule: String,
        /// The tensor's statistics.
        stats: TensorStats,
    },
    /// A `requires` was false: the caller is at fault.
    Requires {
        /// Its source text.
        text: &'static str,
    },
    /// An `ensures` was false: the brick is at fault.
    Ensures {
        /// Its source text.
        text: &'static str,
    },
}

impl Fault {
    pub(crate) fn number(tensor: &str, found: Found, rules: &Rules, stats: TensorStats) -> Fault {
        let tensor = match found.part {
            Some(part) => format!("{tensor}.{part}"),
            None => tensor.to_owned(),
        };
        let rule = match rules.range {
            _ if rules.no_nan && found.value.is_nan() => "no_nan".to_owned(),
            _ if rules.no_inf && found.value.is_infinite() => "no_inf".to_owned(),
            Some((a, b)) => format!("range({a}, {b})"),
            None => "finite".to_owned(),
        };
        Fault::Number {
            tensor,
            index: found.index,
            value: found.value,
            rule,
            stats,
        }
    }
}

impl Violation {
    #[cfg_attr(not(feature = "visualization"), allow(dead_code))]
    pub(crate) fn new(brick: &'static BrickInfo, layer: Option<u64>, fault: Fault) -> Violation {
        Violation {
            brick,
            layer,
            position: crate::scope::current_position(),
            fault,
        }
    }
}

/// A diagnosis of a few lines: which contract, where in the source and in the model, what was
/// found, and what the rest of the tensor looks like.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BrickInfo {
            name, file, line, ..
        } = self.brick;
        match &self.fault {
            Fault::Number { tensor, rule, .. } => {
                write!(f, "brick `{name}` broke its contract `{tensor}: {rule}`")?
            }
            Fault::Ensures { text } => {
                write!(f, "brick `{name}` broke its contract `ensures {text}`")?
            }
            Fault::Requires { text } => write!(
                f,
                "a caller of brick `{name}` broke its contract `requires {text}`"
            )?,
        }
        write!(f, "\n  at {file}:{line}")?;
        if let Some(layer) = self.layer {
            write!(f, ", layer {layer}")?;
        }
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        if let Fault::Number {
            tensor,
            index,
            value,
            stats,
            ..
        } = &self.fault
        {
            write!(f, "\n  first at {tensor}[{index}] = {value}\n  {stats}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Violation {}

#[cfg(test)]
mod tests {
    use super::*;

    static BRICK: BrickInfo =
        BrickInfo::new("Softmax", "kernels::math", "softmax", "src/math.rs", 12);

    #[test]
    fn a_violation_reads_as_a_diagnosis() {
        let _position = crate::position_scope(17);
        let values = [0.5f32, f32::NAN, 1.5, f32::INFINITY];
        let found = Found {
            part: None,
            index: 1,
            value: f64::NAN,
        };
        let fault = Fault::number("out", found, &Rules::FINITE, TensorStats::of(&values));
        let text = Violation::new(&BRICK, Some(3), fault).to_string();
        assert_eq!(
            text,
            "brick `Softmax` broke its contract `out: no_nan`\n  \
             at src/math.rs:12, layer 3, position 17\n  \
             first at out[1] = NaN\n  \
             min 0.5, max 1.5, mean 1, std 0.5; 1 NaN, 1 infinite"
        );
    }

    #[test]
    fn the_rule_told_is_the_one_broken() {
        let rules = Rules::FINITE.within(0.0, 1.0);
        let rule = |value| match Fault::number(
            "x",
            Found {
                part: Some("k"),
                index: 0,
                value,
            },
            &rules,
            TensorStats::of(&[0.0f32]),
        ) {
            Fault::Number { rule, tensor, .. } => (rule, tensor),
            other => panic!("{other:?}"),
        };
        assert_eq!(rule(f64::NAN), ("no_nan".into(), "x.k".into()));
        assert_eq!(rule(f64::NEG_INFINITY).0, "no_inf");
        assert_eq!(rule(1.5).0, "range(0, 1)");
    }
}
