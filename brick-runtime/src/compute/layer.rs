//! Bricks in a row.

use std::time::Duration;

use super::{BrickError, ComputeBrick, ComputeOp};
use crate::contract::Check;
use crate::figure::Figure;
use crate::scope::layer_scope;
use crate::snapshot::BUILT_WITHOUT;

type Stages<I, O> = Box<dyn Fn(&I, &mut Vec<StageRun>) -> Result<O, BrickError> + Send + Sync>;

/// Bricks that run one after the other, each on the output of the one before.
///
/// See the [module's example](crate::ComputeBrick).
pub struct BrickLayer<I, O> {
    stages: Stages<I, O>,
    bricks: Vec<(String, Option<Duration>)>,
    layer: Option<u64>,
}

impl<I, O> std::fmt::Debug for BrickLayer<I, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bricks = &self.bricks;
        f.debug_struct("BrickLayer")
            .field("bricks", bricks)
            .field("layer", &self.layer)
            .finish_non_exhaustive()
    }
}

impl<I: 'static, O: 'static> BrickLayer<I, O> {
    /// Of its first brick.
    #[must_use]
    pub fn new<Op>(brick: ComputeBrick<Op>) -> BrickLayer<I, O>
    where
        Op: ComputeOp<Input = I, Output = O> + 'static,
        O: Check,
    {
        let bricks = vec![(brick.name().to_owned(), brick.time_budget())];
        BrickLayer {
            stages: Box::new(move |input, runs| stage(&brick, input, runs)),
            bricks,
            layer: None,
        }
    }

    /// With another brick, on the output of the last.
    #[must_use]
    pub fn then<Op>(self, brick: ComputeBrick<Op>) -> BrickLayer<I, Op::Output>
    where
        Op: ComputeOp<Input = O> + 'static,
        Op::Output: Check,
    {
        let BrickLayer {
            stages,
            mut bricks,
            layer,
        } = self;
        bricks.push((brick.name().to_owned(), brick.time_budget()));
        let stages = move |input: &I, runs: &mut Vec<StageRun>| {
            let between = stages(input, runs)?;
            stage(&brick, &between, runs)
        };
        BrickLayer {
            stages: Box::new(stages),
            bricks,
            layer,
        }
    }

    /// Its bricks run in layer `layer`.
    #[must_use]
    pub fn at(mut self, layer: u64) -> Self {
        self.layer = Some(layer);
        self
    }

    /// Runs every brick in order.
    ///
    /// # Errors
    /// The first brick's that fails; those after it do not run.
    pub fn run(&self, input: &I) -> Result<LayerRun<O>, BrickError> {
        let _layer = self.layer.map(layer_scope);
        let mut stages = Vec::with_capacity(self.bricks.len());
        let output = (self.stages)(input, &mut stages)?;
        Ok(LayerRun {
            output,
            stages,
            budget: self.budget(),
        })
    }

    /// The names of its bricks, in order.
    pub fn bricks(&self) -> impl Iterator<Item = &str> {
        self.bricks.iter().map(|(name, _)| name.as_str())
    }

    /// The sum of its bricks' budgets: they run one after the other. `None` unless each has one.
    #[must_use]
    pub fn budget(&self) -> Option<Duration> {
        self.bricks.iter().map(|(_, budget)| *budget).sum()
    }
}

fn stage<Op>(
    brick: &ComputeBrick<Op>,
    input: &Op::Input,
    runs: &mut Vec<StageRun>,
) -> Result<Op::Output, BrickError>
where
    Op: ComputeOp,
    Op::Output: Check,
{
    let run = brick.run(input)?;
    runs.push(StageRun {
        brick: brick.name().to_owned(),
        elapsed: run.elapsed,
        budget: run.budget,
    });
    Ok(run.output)
}

/// One brick's part of a layer's run.
#[derive(Clone, Debug, PartialEq)]
pub struct StageRun {
    /// The brick's name.
    pub brick: String,
    /// How long it took; `None` in a build without `visualization`.
    pub elapsed: Option<Duration>,
    /// What it may take.
    pub budget: Option<Duration>,
}

/// A run of a layer.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct LayerRun<O> {
    /// What the last brick made.
    pub output: O,
    /// Its bricks, in order.
    pub stages: Vec<StageRun>,
    /// The sum of their budgets, if each has one.
    pub budget: Option<Duration>,
}

impl<O> LayerRun<O> {
    /// The brick that took longest; `None` in a build without `visualization`.
    #[must_use]
    pub fn bottleneck(&self) -> Option<&StageRun> {
        self.stages
            .iter()
            .filter(|stage| stage.elapsed.is_some())
            .max_by_key(|stage| stage.elapsed)
    }

    /// Nanoseconds of all bricks together.
    #[must_use]
    pub fn elapsed_ns(&self) -> Figure {
        match self
            .stages
            .iter()
            .map(|stage| stage.elapsed)
            .sum::<Option<Duration>>()
        {
            Some(sum) => Figure::Derived {
                value: sum.as_nanos() as f64,
                from: "sum of the measured bricks",
            },
            None => Figure::unavailable(BUILT_WITHOUT),
        }
    }

    /// Whether the budget of the whole was kept; `None` without a budget or a time.
    #[must_use]
    pub fn budget_met(&self) -> Option<bool> {
        let elapsed: Option<Duration> = self.stages.iter().map(|stage| stage.elapsed).sum();
        Some(elapsed? <= self.budget?)
    }
}
