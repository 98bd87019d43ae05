//! Stop the line: what is found out when a number is NaN or infinite.
//!
//! The check that stops a run (a kernel's contract, a traced tensor, the sampler) knows one tensor. The
//! rest is found by running the same tokens once more with somebody looking on: results do not
//! depend on how the tokens are batched, so a fault in the weights or the arithmetic shows again, and a
//! fault that does not is one of the machine or of timing, which is told too.

mod causes;
mod culprit;
mod replay;

use crate::gguf::Gguf;
use crate::model::{Model, ModelError, Node};
use crate::trace::NotFinite;
use brick_kernels::KernelError;
use brick_runtime::TensorStats;
use brick_runtime::contract::{Fault, Violation};
use culprit::Culprit;
use replay::Seen;
use std::fmt;

/// Why a run was stopped, and all that was found out about it.
#[derive(Debug)]
pub struct Diagnosis {
    /// What stopped the run, in its own words.
    stopped_by: String,
    /// The brick whose contract it was, if it was one.
    stopped_in: Option<&'static str>,
    /// The first bad tensor of the replay; `None` if all was finite there.
    found: Option<Found>,
    /// Of the replay, where all tensors were finite: a kernel that made what the next one hid.
    hidden: Option<Violation>,
    causes: Vec<String>,
}

/// The first tensor with a number that is NaN or infinite, and what led to it.
#[derive(Clone, Debug)]
struct Found {
    node: Node,
    brick: Culprit,
    layer: Option<usize>,
    /// The position of the token.
    position: usize,
    /// Of the first bad value, in that token's part of the tensor.
    index: usize,
    value: f32,
    stats: TensorStats,
    /// The tensors that it was computed from, and the layers they are of.
    inputs: Vec<(Node, Option<usize>, TensorStats)>,
    last_good: Option<usize>,
    /// Largest magnitude of the residual stream, before the first layer and after each.
    stream: Vec<f32>,
}

/// Whether `error` says that a number was NaN or infinite.
fn is_numeric(error: &anyhow::Error) -> bool {
    let model = error.downcast_ref::<ModelError>();
    let violation = error.downcast_ref::<Violation>();
    violation.is_some_and(|violation| matches!(violation.fault, Fault::Number { .. }))
        || matches!(
            model,
            Some(ModelError::Kernel(KernelError::BadValue { .. }))
        )
        || matches!(model, Some(ModelError::Halted(why)) if why.is::<NotFinite>())
}

/// The brick that broke its contract.
fn brick_of(error: &anyhow::Error) -> Option<&'static str> {
    let violation = error.downcast_ref::<Violation>()?;
    Some(violation.brick.name)
}

/// The error with all that can be found out about it, if it tells of a number that is NaN or
/// infinite: runs `tokens`, all that were fed until it happened, again.
pub fn diagnose(
    error: anyhow::Error,
    model: &Model<'_>,
    gguf: &Gguf<'_>,
    tokens: &[u32],
) -> anyhow::Error {
    if !is_numeric(&error) {
        return error;
    }
    let Seen { found, broken } = match replay::replay(model, tokens) {
        Ok(seen) => seen,
        Err(why) => return error.context(format!("no diagnosis: the replay failed: {why}")),
    };
    let hidden = broken.filter(|_| found.is_none());
    let causes = match (&found, &hidden) {
        (Some(found), _) => causes::of(found, gguf),
        (None, Some(_)) => vec![
            "overflow: what the kernel made passed f32's 3.4e38, and the kernel after it made it finite again"
                .to_owned(),
        ],
        (None, None) => vec![format!(
            "the same {} tokens, run again, gave finite numbers only: not the weights or the text, but \
             memory, a race, or a kernel that was tampered with",
            tokens.len()
        )],
    };
    anyhow::Error::new(Diagnosis {
        stopped_in: brick_of(&error),
        stopped_by: format!("{error:#}"),
        found,
        hidden,
        causes,
    })
}

/// The error of somebody who looked on at a session, and computed what the session does not.
pub fn of_observer(error: anyhow::Error) -> anyhow::Error {
    if !is_numeric(&error) {
        return error;
    }
    anyhow::Error::new(Diagnosis {
        stopped_in: brick_of(&error),
        stopped_by: format!("{error:#}"),
        found: None,
        hidden: None,
        causes: vec![
            "the run itself was finite up to here: the kernel that stopped it is one of the trace's own, \
             which reads out layers and heads that the run does not"
                .to_owned(),
        ],
    })
}

impl Diagnosis {
    /// The brick that made the first bad number: the replay's if it found one, else the one whose contract
    /// stopped the run, if it was a contract.
    pub fn brick(&self) -> Option<&'static str> {
        let hidden = self.hidden.as_ref().map(|violation| violation.brick.name);
        let found = self.found.as_ref().and_then(|found| found.brick.known());
        found.or(hidden).or(self.stopped_in)
    }
}

impl std::error::Error for Diagnosis {}

/// A diagnosis of some lines.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.stopped_by)?;
        if let Some(found) = &self.found {
            write!(f, "\n{found}")?;
        }
        if let Some(hidden) = &self.hidden {
            write!(
                f,
                "\nrun again: {hidden}\n  every tensor between the kernels was finite"
            )?;
        }
        for cause in &self.causes {
            write!(f, "\nlikely cause: {cause}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            brick,
            index,
            value,
            position,
            ..
        } = self;
        write!(
            f,
            "run again: step {}{}, position {position}: {node}[{index}] = {value}, in brick {brick}",
            node.step(),
            of_layer(self.layer),
        )?;
        write!(f, "\n  output {node}: {:.4}", self.stats)?;
        for (input, layer, stats) in &self.inputs {
            let of = if *layer == self.layer {
                String::new()
            } else {
                of_layer(*layer)
            };
            write!(f, "\n  input {input}{of}: {stats:.4}")?;
        }
        match self.last_good {
            Some(layer) => write!(f, "\n  last good layer: {layer}"),
            None => write!(f, "\n  last good layer: none"),
        }
    }
}

fn of_layer(layer: Option<usize>) -> String {
    layer.map_or(String::new(), |layer| format!(" of layer {layer}"))
}
