//! An operation with what must hold of it.

use std::panic::Location;
use std::time::{Duration, Instant};

use super::assertion::{Assertion, AssertionResult, Verification};
use super::timing::{Named, Timing};
use super::{BrickError, ComputeOp, OpError};
use crate::contract::{Check, Fault, Rules};
use crate::figure::Figure;
use crate::registry::Backend;
use crate::snapshot::BUILT_WITHOUT;

/// An operation with assertions, a budget and a backend.
///
/// [`ComputeBrick::run`] records a call, evaluates every assertion and compares the budget.
/// Without `visualization` it runs the operation and nothing else, as an annotated function
/// would; [`ComputeBrick::verify`] does its work in either build, since it was asked for.
///
/// Rows in reports are told apart by name, backend, budget and assertions; the few bytes that a
/// new combination takes are never freed.
pub struct ComputeBrick<Op: ComputeOp> {
    op: Op,
    assertions: Vec<Assertion<Op::Input, Op::Output>>,
    budget: Option<Duration>,
    enforced: bool,
    backend: Option<Backend>,
    at: &'static Location<'static>,
    timing: Timing,
}

impl<Op: ComputeOp> std::fmt::Debug for ComputeBrick<Op> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ComputeBrick")
            .field("name", &self.name())
            .field("budget", &self.budget)
            .field("backend", &self.backend())
            .finish_non_exhaustive()
    }
}

impl<Op: ComputeOp> ComputeBrick<Op>
where
    Op::Output: Check,
{
    /// Of an operation: no assertions, no budget, its best backend.
    #[must_use]
    #[track_caller]
    pub fn new(op: Op) -> ComputeBrick<Op> {
        ComputeBrick {
            op,
            assertions: Vec::new(),
            budget: None,
            enforced: false,
            backend: None,
            at: Location::caller(),
            timing: Timing::default(),
        }
    }

    /// Every number of the output is finite.
    #[must_use]
    pub fn assert_finite(self) -> Self {
        self.assert(Assertion::Rules(Rules::FINITE, "finite"))
    }
    /// No number of the output is NaN.
    #[must_use]
    pub fn assert_no_nan(self) -> Self {
        self.assert(Assertion::Rules(Rules::NO_NAN, "no_nan"))
    }
    /// Every number of the output (that is no NaN) lies in `min..=max`.
    #[must_use]
    pub fn assert_bounds(self, min: f64, max: f64) -> Self {
        self.assert(Assertion::Rules(Rules::range(min, max), "range"))
    }
    /// Every number of the output is within `tolerance · max(1, |b|)` of the number `b` that
    /// `baseline` computes. Every run then runs the baseline as well.
    #[must_use]
    pub fn assert_equivalent(
        self,
        tolerance: f64,
        baseline: impl Fn(&Op::Input) -> Result<Op::Output, OpError> + Send + Sync + 'static,
    ) -> Self {
        self.assert(Assertion::Equivalent {
            baseline: Box::new(baseline),
            tolerance,
        })
    }
    /// `holds(input, output)`; `name` says what that is.
    #[must_use]
    pub fn assert_that(
        self,
        name: &'static str,
        holds: impl Fn(&Op::Input, &Op::Output) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.assert(Assertion::Custom {
            name,
            holds: Box::new(holds),
        })
    }

    fn assert(mut self, assertion: Assertion<Op::Input, Op::Output>) -> Self {
        self.assertions.push(assertion);
        self.timing = Timing::default();
        self
    }

    /// What a run may take. One that takes longer is counted as over budget.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self.timing = Timing::default();
        self
    }
    /// A run over budget is an error.
    #[must_use]
    pub fn enforce_budget(mut self) -> Self {
        self.enforced = true;
        self
    }
    /// Runs on `backend`.
    ///
    /// # Errors
    /// [`BrickError::Backend`] if the operation does not have it.
    pub fn on(mut self, backend: Backend) -> Result<Self, BrickError> {
        let available = self.op.backends();
        if !available.contains(&backend) {
            let available = available.to_vec();
            return Err(BrickError::Backend {
                brick: self.name().to_owned(),
                backend,
                available,
            });
        }
        self.backend = Some(backend);
        self.timing = Timing::default();
        Ok(self)
    }

    /// Runs the operation, evaluates its assertions and compares its budget.
    ///
    /// # Errors
    /// The operation's own; the first assertion that does not hold (also counted among the
    /// [violations](crate::contract::violations)); a budget that is enforced and not kept.
    pub fn run(&self, input: &Op::Input) -> Result<BrickRun<Op::Output>, BrickError> {
        let work = self.op.work(input);
        let texts = || self.assertions.iter().map(Assertion::text).collect();
        let (output, elapsed) = self.timing.call(
            || Named::new::<Op>(self.name(), self.backend(), self.budget, texts(), self.at),
            work,
            || self.op.execute(input, self.backend()),
            |output| self.first_fault(input, output),
        )?;
        let brick = || self.name().to_owned();
        match (elapsed, self.budget) {
            (Some(elapsed), Some(budget)) if self.enforced && elapsed > budget => {
                Err(BrickError::Budget {
                    brick: brick(),
                    budget,
                    elapsed,
                })
            }
            _ => Ok(BrickRun {
                output,
                tokens: work.tokens,
                elapsed,
                budget: self.budget,
            }),
        }
    }

    fn first_fault(
        &self,
        input: &Op::Input,
        output: &Op::Output,
    ) -> Result<Option<Fault>, OpError> {
        for assertion in &self.assertions {
            if let Some(fault) = assertion.fault(input, output)? {
                return Ok(Some(fault));
            }
        }
        Ok(None)
    }

    /// Runs the operation on `input` and evaluates every assertion, recording nothing.
    ///
    /// # Errors
    /// The operation's own or a baseline's; [`BrickError::NoAssertions`].
    pub fn verify(&self, input: &Op::Input) -> Result<Verification, BrickError> {
        let brick = || self.name().to_owned();
        if self.assertions.is_empty() {
            return Err(BrickError::NoAssertions { brick: brick() });
        }
        let failed = |source| BrickError::Op {
            brick: brick(),
            source,
        };
        let begin = Instant::now();
        let output = self.op.execute(input, self.backend()).map_err(failed)?;
        let result = |assertion: &Assertion<_, _>| {
            let fault = assertion.fault(input, &output).map_err(failed)?;
            Ok(AssertionResult {
                assertion: assertion.text(),
                fault,
            })
        };
        let assertions = self
            .assertions
            .iter()
            .map(result)
            .collect::<Result<_, BrickError>>()?;
        Ok(Verification {
            assertions,
            elapsed: begin.elapsed(),
        })
    }
}

impl<Op: ComputeOp> ComputeBrick<Op> {
    /// The operation's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.op.name()
    }
    /// What a run may take.
    #[must_use]
    pub fn time_budget(&self) -> Option<Duration> {
        self.budget
    }
    /// Where it runs: what was chosen, or the operation's best.
    #[must_use]
    pub fn backend(&self) -> Backend {
        let best = || self.op.backends().first().copied();
        self.backend.or_else(best).unwrap_or(Backend::Primary)
    }
    /// The operation.
    #[must_use]
    pub fn op(&self) -> &Op {
        &self.op
    }
}

/// A run of a brick: what came out, and how long it took.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct BrickRun<T> {
    /// What the operation made.
    pub output: T,
    /// Tokens that it declared.
    pub tokens: u64,
    /// How long the operation took; `None` in a build without `visualization`.
    pub elapsed: Option<Duration>,
    /// What it may take.
    pub budget: Option<Duration>,
}

impl<T> BrickRun<T> {
    /// Nanoseconds of the operation.
    #[must_use]
    pub fn elapsed_ns(&self) -> Figure {
        match self.elapsed {
            Some(elapsed) => Figure::Measured(elapsed.as_nanos() as f64),
            None => Figure::unavailable(BUILT_WITHOUT),
        }
    }
    /// Whether the budget was kept; `None` without a budget or a time.
    #[must_use]
    pub fn budget_met(&self) -> Option<bool> {
        Some(self.elapsed? <= self.budget?)
    }
    /// Time over budget: 1 is just kept.
    #[must_use]
    pub fn budget_utilization(&self) -> Figure {
        match (self.elapsed, self.budget) {
            (None, _) => Figure::unavailable(BUILT_WITHOUT),
            (_, None) => Figure::unavailable("no budget declared"),
            (Some(elapsed), Some(budget)) => Figure::Derived {
                value: elapsed.as_secs_f64() / budget.as_secs_f64(),
                from: "measured time / declared budget",
            },
        }
    }
    /// Declared tokens per second.
    #[must_use]
    pub fn tokens_per_s(&self) -> Figure {
        match self.elapsed {
            None => Figure::unavailable(BUILT_WITHOUT),
            Some(_) if self.tokens == 0 => Figure::unavailable("no tokens declared"),
            Some(elapsed) => Figure::Derived {
                value: self.tokens as f64 / elapsed.as_secs_f64(),
                from: "declared tokens / measured time",
            },
        }
    }
}
