//! What is finite and still looks wrong.

use crate::arch::Config;
use crate::model::{At, Node, Tensor, View};
use brick_kernels::KernelError;
use brick_kernels::attention::AttentionConfig;
use brick_kernels::attention_weights::attention_weights;
use brick_runtime::TensorStats;
use serde::Serialize;
use std::fmt;

/// A value below this passes nothing on.
const DEAD: f32 = 1e-6;
/// Share of dead values from which on a tensor is called dead.
const DEAD_SHARE: f64 = 0.9;
/// A logit beyond this share of its softcap is saturated.
const SATURATED: f32 = 0.99;
/// Share of saturated logits from which on that is told.
const SATURATED_SHARE: f64 = 0.01;
/// Weight of one position from which on a head looks at nothing else.
const ONE_POSITION: f32 = 0.999;
/// Share of such heads from which on a layer's attention is saturated. Some heads of a trained model
/// rest on the first position; all of them do not.
const ONE_POSITION_SHARE: f64 = 0.9;
/// Positions that a token has to see before one of them can be said to have it all.
const FEWEST_POSITIONS: usize = 8;
/// Attention is looked at in one pass of so many, the prompt's first among them: weights are not kept
/// by the kernel, and have to be computed again.
const ATTENTION_EVERY: usize = 16;
/// The largest f16: beyond it, an activation of half precision or an element of a KV cache of halves is
/// infinite.
const LARGEST_HALF: f32 = 65504.0;
/// Growth of the residual stream's magnitude over one layer from which on that is told.
const GROWTH: f32 = 1000.0;

/// Something finite that looks wrong: told once for each kind and layer, where it first shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// `dead`, `saturated`, `exploding`, `uncacheable` or `growing`.
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
    /// The last token's queries, `[n_heads, head_dim]`, where its attention is looked at.
    query: Vec<f32>,
    /// `[n_heads, positions]`
    weights: Vec<f32>,
}

impl Warnings {
    pub(super) fn all(&self) -> &[Warning] {
        &self.told
    }

    /// Looks at one tensor.
    pub(super) fn look(&mut self, tensor: &Tensor<'_>, stats: &TensorStats, config: &Config) {
        let magnitude = stats.max.max(-stats.min);
        if magnitude > LARGEST_HALF {
            let (kind, what) = match tensor.node {
                Node::Key | Node::Value => (
                    "uncacheable",
                    "the largest magnitude, which a KV cache of halves would have as infinite,",
                ),
                _ => ("exploding", "the largest magnitude"),
            };
            self.tell(tensor, kind, magnitude.into(), LARGEST_HALF.into(), what);
        }
        match tensor.node {
            Node::FfnInner | Node::AttnHeads => {
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

    /// Looks at what the last token attends to, once its keys are in the cache.
    ///
    /// # Errors
    /// Those of the kernel that computes the weights.
    pub(super) fn attention(
        &mut self,
        tensor: &Tensor<'_>,
        view: &View<'_>,
        pass: usize,
    ) -> Result<(), KernelError> {
        match (tensor.node, tensor.at.layer) {
            (Node::Query, Some(_)) => {
                self.query.clear();
                if pass.is_multiple_of(ATTENTION_EVERY) {
                    let last = &tensor.data[tensor.data.len() - tensor.width()..];
                    self.query.extend_from_slice(last);
                }
                Ok(())
            }
            (Node::AttnHeads, Some(layer)) if !self.query.is_empty() => {
                let config = view.model.config();
                let attends = AttentionConfig {
                    n_heads: config.n_heads,
                    scale: config.attention_scale,
                    window: config.window(layer),
                };
                let position = tensor.at.first_pos + tensor.at.n_tokens - 1;
                let visible = attends.visible(position).len();
                if visible < FEWEST_POSITIONS {
                    return Ok(());
                }
                self.weights.resize(config.n_heads * visible, 0.0);
                let (query, weights) = (&self.query, &mut self.weights);
                attention_weights(&attends, view.cache, layer, position, query, weights)?;
                let last = At {
                    first_pos: position,
                    n_tokens: 1,
                    ..tensor.at
                };
                self.heads(
                    &Tensor {
                        at: last,
                        ..*tensor
                    },
                    visible,
                );
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Looks at the weights of each head over `visible` positions.
    fn heads(&mut self, tensor: &Tensor<'_>, visible: usize) {
        let heads = self.weights.chunks_exact(visible);
        let n = heads.len();
        let one = |head: &&[f32]| head.iter().any(|&weight| weight >= ONE_POSITION);
        let saturated = heads.filter(one).count() as f64 / n as f64;
        if saturated > ONE_POSITION_SHARE {
            let what = "the share of heads with 99.9 % of their weight on one position";
            self.tell(tensor, "saturated", saturated, ONE_POSITION_SHARE, what);
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
        assert_eq!(told(&mut w, Node::AttnHeads, Some(1), &inner).len(), 1);
        // Once for a layer, and again for the next.
        assert_eq!(told(&mut w, Node::FfnInner, Some(1), &inner), [""; 0]);
        assert_eq!(told(&mut w, Node::FfnInner, Some(2), &inner).len(), 1);

        for (node, line) in [
            (
                Node::Query,
                "exploding: q of layer 0, position 3: the largest magnitude is 65536.000, threshold 65504",
            ),
            (
                Node::Key,
                "uncacheable: k of layer 0, position 3: the largest magnitude, which a KV cache of halves would have as infinite, is 65536.000, threshold 65504",
            ),
        ] {
            assert_eq!(told(&mut w, node, Some(0), &[65504.0, 0.0]), [""; 0]);
            assert_eq!(told(&mut w, node, Some(0), &[-65536.0, 0.0]), [line]);
        }

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

    /// Ten heads of eight positions: nine that look at one is the threshold, ten are over it.
    #[test]
    fn heads_that_look_at_one_position() {
        let mut w = Warnings::default();
        let at = At {
            layer: Some(2),
            first_pos: 7,
            n_tokens: 1,
        };
        let tensor = Tensor {
            node: Node::AttnHeads,
            at,
            data: &[0.0],
        };
        w.weights = vec![0.0; 80];
        (0..10).for_each(|head| w.weights[8 * head + head % 8] = 0.999);
        w.weights[8] = 0.5;
        w.weights[9] = 0.5;
        w.heads(&tensor, 8);
        assert!(w.all().is_empty());
        w.weights[9] = 0.999;
        w.heads(&tensor, 8);
        assert_eq!(
            w.all()[0].to_string(),
            "saturated: attn_heads of layer 2, position 7: the share of heads with 99.9 % of their weight \
             on one position is 1.000, threshold 0.9"
        );
    }
}
