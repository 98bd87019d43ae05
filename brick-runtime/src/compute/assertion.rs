//! What must hold of a brick's output.

use std::time::Duration;

use super::OpError;
use crate::contract::{Check, Checker, Fault, Rules, TensorStats};

/// Computes what an operation should, some other way.
pub(super) type Baseline<I, O> = Box<dyn Fn(&I) -> Result<O, OpError> + Send + Sync>;

/// Whether an output is good for its input.
pub(super) type Predicate<I, O> = Box<dyn Fn(&I, &O) -> bool + Send + Sync>;

/// One thing that must hold.
pub(super) enum Assertion<I, O> {
    Rules(Rules, &'static str),
    Equivalent {
        baseline: Baseline<I, O>,
        tolerance: f64,
    },
    Custom {
        name: &'static str,
        holds: Predicate<I, O>,
    },
}

impl<I, O: Check> Assertion<I, O> {
    /// As it stands in reports.
    pub(super) fn text(&self) -> String {
        match self {
            Assertion::Rules(
                Rules {
                    range: Some((a, b)),
                    ..
                },
                _,
            ) => format!("output: range({a}, {b})"),
            Assertion::Rules(_, name) => format!("output: {name}"),
            Assertion::Equivalent { tolerance, .. } => {
                format!("output: equivalent to its baseline within {tolerance}")
            }
            Assertion::Custom { name, .. } => format!("ensures {name}"),
        }
    }

    /// What is wrong, if anything.
    pub(super) fn fault(&self, input: &I, output: &O) -> Result<Option<Fault>, OpError> {
        Ok(match self {
            Assertion::Rules(rules, _) => broken(output, rules),
            Assertion::Equivalent {
                baseline,
                tolerance,
            } => different(output, &baseline(input)?, *tolerance),
            Assertion::Custom { name, holds } if holds(input, output) => {
                let _ = name;
                None
            }
            Assertion::Custom { name, .. } => Some(Fault::Ensures { text: name }),
        })
    }
}

fn broken<O: Check>(output: &O, rules: &Rules) -> Option<Fault> {
    let mut checker = Checker::find(rules);
    output.check(&mut checker);
    let found = checker.found()?;
    let mut checker = Checker::measure(rules, found.part);
    output.check(&mut checker);
    Some(Fault::number("output", found, rules, checker.into_stats()))
}

/// The first number that is off by more than `tolerance · max(1, |expected|)`, or a number of
/// numbers that differs. NaN is equal to nothing.
fn different<O: Check>(output: &O, expected: &O, tolerance: f64) -> Option<Fault> {
    let (actual, expected) = (Checker::collect(output), Checker::collect(expected));
    let near = |(a, e): (&f64, &f64)| a == e || (a - e).abs() <= tolerance * e.abs().max(1.0);
    let index = match actual.iter().zip(&expected).position(|pair| !near(pair)) {
        Some(index) => index,
        None if actual.len() == expected.len() => return None,
        None => actual.len().min(expected.len()),
    };
    let value = |values: &[f64]| values.get(index).copied().unwrap_or(f64::NAN);
    Some(Fault::Number {
        tensor: "output".into(),
        index,
        value: value(&actual),
        rule: format!("equivalent({}, {tolerance})", value(&expected)),
        stats: TensorStats::of(output),
    })
}

/// What became of one assertion.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AssertionResult {
    /// The assertion, as text.
    pub assertion: String,
    /// What is wrong; `None` if it holds.
    pub fault: Option<Fault>,
}

/// What became of all assertions of a brick on one input.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Verification {
    /// One for each assertion, in order; at least one.
    pub assertions: Vec<AssertionResult>,
    /// How long the operation took, and all assertions together.
    pub elapsed: Duration,
}

impl Verification {
    /// Whether every assertion holds.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.assertions.iter().all(|a| a.fault.is_none())
    }
}
