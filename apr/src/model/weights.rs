//! The weights of a model, borrowed from its file.

use super::ModelError;
use crate::arch::{ArchError, Config};
use crate::gguf::{Gguf, Tensor};
use brick_kernels::kv_cache::KvFormat;
use brick_kernels::lm_head::{lm_head, logit_softcap};
use brick_kernels::projection::{GateUpWeights, QkvWeights};
use brick_kernels::quant::{Activations, Matrix};
use brick_kernels::rms_norm::rms_norm;
use brick_kernels::rope::Rope;

/// A model that can be run: its settings, and its weights as they lie in the file. Vectors (norms,
/// biases) are copied, matrices are not.
#[derive(Debug)]
pub struct Model<'a> {
    config: Config,
    embedding: Matrix<'a>,
    /// `[n_embd]`.
    output_norm: Vec<f32>,
    /// `[n_vocab, n_embd]`; the embedding itself where the file has no `output.weight`.
    head: Matrix<'a>,
    /// Whether it is.
    tied: bool,
    layers: Vec<Layer<'a>>,
    /// How global layers rotate their queries and keys, and local ones: of those that there are.
    ropes: Vec<Rope>,
}

/// The weights of one layer. Norms are `[n_embd]`, those of queries and keys `[head_dim]`.
#[derive(Debug)]
pub(super) struct Layer<'a> {
    pub(super) attn_norm: Vec<f32>,
    q: Matrix<'a>,
    k: Matrix<'a>,
    v: Matrix<'a>,
    q_bias: Option<Vec<f32>>,
    k_bias: Option<Vec<f32>>,
    v_bias: Option<Vec<f32>>,
    pub(super) q_norm: Option<Vec<f32>>,
    pub(super) k_norm: Option<Vec<f32>>,
    pub(super) output: Matrix<'a>,
    pub(super) post_attention_norm: Option<Vec<f32>>,
    pub(super) ffn_norm: Vec<f32>,
    pub(super) gate_up: GateUpWeights<'a>,
    pub(super) down: Matrix<'a>,
    pub(super) post_ffw_norm: Option<Vec<f32>>,
}

impl<'a> Model<'a> {
    /// Checks that `gguf` has what its architecture needs, and borrows it. Weights are not read.
    ///
    /// # Errors
    /// The first thing that is missing or wrong.
    pub fn load(gguf: &Gguf<'a>) -> Result<Self, ModelError> {
        let config = Config::load(gguf)?;
        let tensors = Tensors {
            gguf,
            architecture: config.architecture.name(),
        };
        let embedding = tensors.matrix("token_embd.weight")?;
        let head = gguf.tensor("output.weight");
        let head = head.map(|head| head.matrix()).transpose()?;
        let layers = (0..config.n_layers).map(|index| Layer::load(&tensors, index));
        let freq_factors = tensors.find_vector("rope_freqs.weight")?;
        let rope = |layer| Rope::new(&config.rope(layer, freq_factors.as_deref()));
        let global = (0..config.n_layers).find(|&layer| config.window(layer).is_none());
        let local = (0..config.n_layers).find(|&layer| config.window(layer).is_some());
        Ok(Self {
            embedding,
            output_norm: tensors.vector("output_norm.weight")?,
            tied: head.is_none(),
            head: head.unwrap_or(embedding),
            layers: layers.collect::<Result<_, _>>()?,
            ropes: [global, local]
                .into_iter()
                .flatten()
                .map(rope)
                .collect::<Result<_, _>>()?,
            config,
        })
    }

    /// The same model, with matrix products that take their activations so. After [`load`](Self::load)
    /// they are rounded to 8 bits where the weights are quantised, and sessions keep keys and values as
    /// halves.
    #[must_use]
    pub fn with_activations(mut self, activations: Activations) -> Self {
        let set = |w: &mut Matrix<'a>| *w = w.with_activations(activations);
        set(&mut self.head);
        for layer in &mut self.layers {
            let GateUpWeights { gate, up } = &mut layer.gate_up;
            let attention = [&mut layer.q, &mut layer.k, &mut layer.v, &mut layer.output];
            attention.into_iter().for_each(set);
            [gate, up, &mut layer.down].into_iter().for_each(set);
        }
        self
    }

    /// How a session keeps keys and values: as halves where products round more than that.
    pub(super) fn kv_format(&self) -> Result<KvFormat, ModelError> {
        let rounds = brick_kernels::selection()?.rounds_activations;
        Ok(match self.head.activations() {
            Activations::Rounded if rounds => KvFormat::F16,
            _ => KvFormat::F32,
        })
    }

    /// The hyperparameters.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Tokens of the vocabulary: the length of the logits.
    pub fn n_vocab(&self) -> usize {
        self.config.n_vocab
    }

    /// Bytes of weights that a pass of one token has to read: every matrix as it lies in the file and
    /// every vector as `f32`, once; of an embedding that is not the head as well, one row.
    pub fn bytes_per_token(&self) -> usize {
        let row = match self.tied {
            true => 0,
            false => self.embedding.byte_len() / self.embedding.rows(),
        };
        let layers: usize = self.layers.iter().map(Layer::byte_len).sum();
        row + layers + size_of_val(&*self.output_norm) + self.head.byte_len()
    }

    pub(super) fn embedding(&self) -> &Matrix<'a> {
        &self.embedding
    }

    pub(super) fn layers(&self) -> &[Layer<'a>] {
        &self.layers
    }

    /// The ways in which layers rotate their queries and keys.
    pub(super) fn ropes(&self) -> &[Rope] {
        &self.ropes
    }

    /// Which of the [`ropes`](Self::ropes) is `layer`'s.
    pub(super) fn rope_of(&self, layer: usize) -> usize {
        let local = self.config.window(layer).is_some();
        usize::from(local && self.ropes.len() > 1)
    }

    /// The logits of `n` tokens from their residual stream `x`, `[n, n_embd]`: the final norm goes to
    /// `h`, `[n, n_embd]`, the logits, softcap included, to `logits`, `[n, n_vocab]`. Of a stream
    /// between two layers it is what the model would say if it ended there (the logit lens).
    ///
    /// # Errors
    /// If a length does not match.
    pub fn read_out(&self, x: &[f32], h: &mut [f32], logits: &mut [f32]) -> Result<(), ModelError> {
        rms_norm(x, &self.output_norm, self.config.rms_eps, h)?;
        lm_head(&self.head, h, x.len() / self.config.n_embd, logits)?;
        if let Some(cap) = self.config.logit_softcap {
            logit_softcap(cap, logits)?;
        }
        Ok(())
    }
}

impl<'a> Layer<'a> {
    fn load(tensors: &Tensors<'_, 'a>, index: usize) -> Result<Self, ModelError> {
        let name = |part: &str| format!("blk.{index}.{part}");
        let matrix = |part: &str| tensors.matrix(&name(part));
        let vector = |part: &str| tensors.vector(&name(part));
        let find_vector = |part: &str| tensors.find_vector(&name(part));
        Ok(Self {
            attn_norm: vector("attn_norm.weight")?,
            q: matrix("attn_q.weight")?,
            k: matrix("attn_k.weight")?,
            v: matrix("attn_v.weight")?,
            q_bias: find_vector("attn_q.bias")?,
            k_bias: find_vector("attn_k.bias")?,
            v_bias: find_vector("attn_v.bias")?,
            q_norm: find_vector("attn_q_norm.weight")?,
            k_norm: find_vector("attn_k_norm.weight")?,
            output: matrix("attn_output.weight")?,
            post_attention_norm: find_vector("post_attention_norm.weight")?,
            ffn_norm: vector("ffn_norm.weight")?,
            gate_up: GateUpWeights {
                gate: matrix("ffn_gate.weight")?,
                up: matrix("ffn_up.weight")?,
            },
            down: matrix("ffn_down.weight")?,
            post_ffw_norm: find_vector("post_ffw_norm.weight")?,
        })
    }

    /// Bytes that a pass reads: matrices as they lie in the file, vectors as `f32`.
    fn byte_len(&self) -> usize {
        let matrices = [
            self.q,
            self.k,
            self.v,
            self.output,
            self.gate_up.gate,
            self.gate_up.up,
            self.down,
        ];
        let vectors = [
            Some(&self.attn_norm),
            Some(&self.ffn_norm),
            self.q_bias.as_ref(),
            self.k_bias.as_ref(),
            self.v_bias.as_ref(),
            self.q_norm.as_ref(),
            self.k_norm.as_ref(),
            self.post_attention_norm.as_ref(),
            self.post_ffw_norm.as_ref(),
        ];
        let matrices: usize = matrices.iter().map(Matrix::byte_len).sum();
        let vectors = vectors.into_iter().flatten();
        matrices + vectors.map(|v| size_of_val(&**v)).sum::<usize>()
    }

    /// The query, key and value projections, as the fused kernel takes them.
    pub(super) fn qkv(&self) -> QkvWeights<'_> {
        QkvWeights {
            q: self.q,
            k: self.k,
            v: self.v,
            q_bias: self.q_bias.as_deref(),
            k_bias: self.k_bias.as_deref(),
            v_bias: self.v_bias.as_deref(),
        }
    }
}

/// Tensors by name. [`Config::load`] has checked which there are and their dimensions.
struct Tensors<'g, 'a> {
    gguf: &'g Gguf<'a>,
    architecture: &'static str,
}

impl<'a> Tensors<'_, 'a> {
    fn get(&self, name: &str) -> Result<Tensor<'a>, ArchError> {
        self.gguf
            .tensor(name)
            .ok_or_else(|| ArchError::MissingTensor {
                name: name.to_owned(),
                dims: Vec::new(),
                architecture: self.architecture,
            })
    }

    fn matrix(&self, name: &str) -> Result<Matrix<'a>, ModelError> {
        Ok(self.get(name)?.matrix()?)
    }

    fn vector(&self, name: &str) -> Result<Vec<f32>, ModelError> {
        to_vec(self.get(name)?)
    }

    fn find_vector(&self, name: &str) -> Result<Option<Vec<f32>>, ModelError> {
        self.gguf.tensor(name).map(to_vec).transpose()
    }
}

/// The elements of a one-dimensional tensor, whatever their format and alignment.
fn to_vec(tensor: Tensor<'_>) -> Result<Vec<f32>, ModelError> {
    let row = tensor.matrix()?;
    let mut values = vec![0.0; row.cols()];
    row.dequantise_row(0, &mut values)?;
    Ok(values)
}
