//! The logit lens: what the model would say if it ended after a layer.

use crate::model::Model;
use anyhow::Result;
use brick_runtime::trace::{LogitEvolution, RankedLogit};

/// The residual stream of one position after each layer, and buffers to read it out.
#[derive(Debug)]
pub(super) struct Lens {
    /// `[n_layers, n_embd]`
    streams: Vec<f32>,
    /// `[n_embd]`
    norm: Vec<f32>,
    /// `[n_vocab]`
    logits: Vec<f32>,
}

impl Lens {
    pub(super) fn new(model: &Model<'_>) -> Self {
        let config = model.config();
        Self {
            streams: vec![0.0; config.n_layers * config.n_embd],
            norm: vec![0.0; config.n_embd],
            logits: vec![0.0; model.n_vocab()],
        }
    }

    /// Keeps what `layer` left, `[n_embd]`.
    pub(super) fn keep(&mut self, layer: usize, stream: &[f32]) {
        let n_embd = self.norm.len();
        self.streams[layer * n_embd..][..n_embd].copy_from_slice(stream);
    }

    /// How each of `tokens` evolved through the layers. The last layer's logits are the model's own.
    pub(super) fn evolutions(
        &mut self,
        model: &Model<'_>,
        tokens: &[u32],
    ) -> Result<Vec<LogitEvolution>> {
        let n_layers = model.config().n_layers;
        let mut layers = vec![Vec::with_capacity(n_layers); tokens.len()];
        for stream in self.streams.chunks_exact(self.norm.len()) {
            model.read_out(stream, &mut self.norm, &mut self.logits)?;
            for (&token, layers) in tokens.iter().zip(&mut layers) {
                layers.push(RankedLogit::of(&self.logits, token)?);
            }
        }
        let of = |(&token, layers)| LogitEvolution::new(token, layers);
        Ok(tokens.iter().zip(layers).map(of).collect())
    }

    /// Bytes of the buffers.
    pub(super) fn bytes(&self) -> usize {
        size_of::<f32>() * (self.streams.len() + self.norm.len() + self.logits.len())
    }
}
