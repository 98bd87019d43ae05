//! What is finite and still looks wrong.

use crate::arch::Config;
use crate::model::{Node, Tensor};
use brick_runtime::TensorStats;
use serde::Serialize;
use std::fmt;

/// A value of the feed-forward network's inner layer below this passes nothing on.
const DEAD: f32 = 1e-6;
/// Share of dead values from which on the layer is called dead.
const DEAD_SHARE: f64 = 0.9;
/// A logit beyond this share of its softcap is saturated.
const SATURATED: f32 = 0.99;
/// Share of saturated logits from which on that is told.
const SATURATED_SHARE: f64 = 0.01;
/// The largest f16: beyond it, a cache or an activation of half precision would be infinite.
const EXPLODED: f32 = 65504.0;
/// Growth of the residual stream's magnitude over one layer from which on that is told.
const GROWTH: f32 = 1000.0;

/// Something finite that looks wrong: told once for each kind and layer, where it first shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// `dead`, `saturated`, `exploding` or `growing`.
    pub kind: &'static str,
    /// The tensor.
    pub tensor: &'static str,
    /// Its layer.
    pub layer: Option<usize>,
    /// Position of its first token.
    pub position: usize,
    /// What was measured.
    pub value: f64,
    /// From where on it is told.
    pub threshold: f64,
    /// What the value is, in words.
    pub what: &'static str,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            tensor,
            position,
            what,
            ..
        } = self;
        write!(f, "{kind}: {tensor}")?;
        if let Some(layer) = self.layer {
            write!(f, " of layer {layer}")?;
        }
        let (value, threshold) = (self.value, self.threshold);
        write!(
            f,
            ", position {position}: {what} is {value:.3}, threshold {threshold}"
        )
    }
}

/// The warnings so far.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    told: Vec<Warning>,
    /// Largest magnitude of the stream before the layer.
    stream: Option<f32>,
}

impl Warnings {
    pub(super) fn all(&self) -> &[Warning] {
        &self.told
    }

    /// Looks at one tensor.
    pub(super) fn look(&mut self, tensor: &Tensor<'_>, stats: &TensorStats, config: &Config) {
        let magnitude = stats.max.max(-stats.min);
        if magnitude > EXPLODED {
            let what = "the largest magnitude";
            self.tell(tensor, "exploding", magnitude.into(), EXPLODED.into(), what);
        }
        match tensor.node {
            Node::FfnInner => {
                let dead = share(tensor.data, |value| value.abs() < DEAD);
                if dead > DEAD_SHARE {
                    let what = "the share of values below 1e-6";
                    self.tell(tensor, "dead", dead, DEAD_SHARE, what);
                }
            }
            Node::Embedding => self.stream = Some(magnitude),
            Node::LayerOutput => {
                if let Some(before) = self.stream.replace(magnitude)
                    && magnitude > GROWTH * before
                {
                    let growth = f64::from(magnitude) / f64::from(before);
                    let what = "growth of the largest magnitude over the layer";
                    self.tell(tensor, "growing", growth, GROWTH.into(), what);
                }
            }
            Node::Logits => {
                if let Some(cap) = config.logit_softcap {
                    let capped = share(tensor.data, |value| value.abs() > SATURATED * cap);
                    if capped > SATURATED_SHARE {
                        let what = "the share of logits beyond 99 % of the softcap";
                        self.tell(tensor, "saturated", capped, SATURATED_SHARE, what);
                    }
                }
            }
            _ => {}
        }
    }

    fn tell(
        &mut self,
        tensor: &Tensor<'_>,
        kind: &'static str,
        value: f64,
        threshold: f64,
        what: &'static str,
    ) {
        let (name, layer) = (tensor.node.name(), tensor.at.layer);
        let told = |w: &Warning| (w.kind, w.tensor, w.layer) == (kind, name, layer);
        if self.told.iter().any(told) {
            return;
        }
        self.told.push(Warning {
            kind,
            tensor: name,
            layer,
            position: tensor.at.first_pos,
            value,
            threshold,
            what,
        });
    }
}

fn share(values: &[f32], counts: impl Fn(f32) -> bool) -> f64 {
    // Summed in 32 bits, which fits vectors; more values than that are not in one tensor.
    let count: u32 = values.iter().map(|&value| u32::from(counts(value))).sum();
    f64::from(count) / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::At;

    fn told(
        warnings: &mut Warnings,
        node: Node,
        layer: Option<usize>,
        data: &[f32],
    ) -> Vec<String> {
        let file = crate::model_file::ModelFile::open(None).unwrap();
        let mut config = Config::load(&file.parse().unwrap()).unwrap();
        config.logit_softcap = Some(30.0);
        let at = At {
            layer,
            first_pos: 3,
            n_tokens: 1,
        };
        let before = warnings.all().len();
        warnings.look(&Tensor { node, at, data }, &TensorStats::of(data), &config);
        warnings.all()[before..]
            .iter()
            .map(Warning::to_string)
            .collect()
    }

    /// Each just below and just above its threshold.
    #[test]
    fn thresholds() {
        let mut w = Warnings::default();
        let mut inner = vec![0.0f32; 100];
        inner[..10].fill(1e-5);
        assert_eq!(told(&mut w, Node::FfnInner, Some(1), &inner), [""; 0]);
        inner[9] = 9e-7;
        let line = "dead: ffn_inner of layer 1, position 3: the share of values below 1e-6 is 0.910, threshold 0.9";
        assert_eq!(told(&mut w, Node::FfnInner, Some(1), &inner), [line]);
        // Once for a layer, and again for the next.
        assert_eq!(told(&mut w, Node::FfnInner, Some(1), &inner), [""; 0]);
        assert_eq!(told(&mut w, Node::FfnInner, Some(2), &inner).len(), 1);

        assert_eq!(told(&mut w, Node::Query, Some(0), &[65504.0, 0.0]), [""; 0]);
        assert_eq!(
            told(&mut w, Node::Query, Some(0), &[-65536.0, 0.0]).len(),
            1
        );

        told(&mut w, Node::Embedding, None, &[0.5, -2.0]);
        assert_eq!(told(&mut w, Node::LayerOutput, Some(0), &[1999.0]), [""; 0]);
        let grown = told(&mut w, Node::LayerOutput, Some(1), &[-2.1e6]);
        assert_eq!(grown.len(), 2, "exploding and growing: {grown:?}");

        let mut logits = vec![0.0f32; 100];
        logits[0] = 29.9;
        assert_eq!(told(&mut w, Node::Logits, None, &logits), [""; 0]);
        logits[1] = -29.9;
        let saturated = told(&mut w, Node::Logits, None, &logits);
        assert!(
            saturated[0].starts_with("saturated: logits, position 3: "),
            "{saturated:?}"
        );
    }
}
