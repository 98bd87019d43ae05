//! The tensors of each architecture.

use super::{ArchError, Architecture, Config};
use crate::gguf::{Gguf, Tensor};
use std::collections::HashSet;

/// A tensor that a model of some configuration has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Its dimensions, fastest-varying first: `[n_in, n_out]`.
    pub dims: Vec<u64>,
    /// Whether the model cannot do without it.
    pub required: bool,
}

/// A dimension, as the configuration gives it.
#[derive(Clone, Copy)]
enum Dim {
    Embd,
    Ff,
    Vocab,
    /// All query heads together.
    Query,
    /// All key-value heads together.
    KeyValue,
    Head,
    /// Rotated pairs.
    RopePairs,
}

/// Name, dimensions, required.
type Row = (&'static str, &'static [Dim], bool);

use Dim::{Embd, Ff, Head, KeyValue, Query, RopePairs, Vocab};

/// Tensors outside the layers. Without `output.weight` the LM head is `token_embd.weight`.
const GLOBAL: &[Row] = &[
    ("token_embd.weight", &[Embd, Vocab], true),
    ("output_norm.weight", &[Embd], true),
    ("output.weight", &[Embd, Vocab], false),
];
/// Llama 3's divisors of the RoPE frequencies.
const LLAMA_GLOBAL: &[Row] = &[("rope_freqs.weight", &[RopePairs], false)];

/// Tensors of each layer, after `blk.N.`.
const LAYER: &[Row] = &[
    ("attn_norm.weight", &[Embd], true),
    ("attn_q.weight", &[Embd, Query], true),
    ("attn_k.weight", &[Embd, KeyValue], true),
    ("attn_v.weight", &[Embd, KeyValue], true),
    ("attn_output.weight", &[Query, Embd], true),
    ("ffn_norm.weight", &[Embd], true),
    ("ffn_gate.weight", &[Embd, Ff], true),
    ("ffn_up.weight", &[Embd, Ff], true),
    ("ffn_down.weight", &[Ff, Embd], true),
];
const LLAMA_LAYER: &[Row] = &[
    ("attn_q.bias", &[Query], false),
    ("attn_k.bias", &[KeyValue], false),
    ("attn_v.bias", &[KeyValue], false),
];
const QWEN2_LAYER: &[Row] = &[
    ("attn_q.bias", &[Query], true),
    ("attn_k.bias", &[KeyValue], true),
    ("attn_v.bias", &[KeyValue], true),
];
const QWEN3_LAYER: &[Row] = &[
    ("attn_q_norm.weight", &[Head], true),
    ("attn_k_norm.weight", &[Head], true),
];
const GEMMA3_LAYER: &[Row] = &[
    ("attn_q_norm.weight", &[Head], true),
    ("attn_k_norm.weight", &[Head], true),
    ("post_attention_norm.weight", &[Embd], true),
    ("post_ffw_norm.weight", &[Embd], true),
];

impl Architecture {
    fn global_rows(self) -> impl Iterator<Item = &'static Row> {
        let own = match self {
            Self::Llama => LLAMA_GLOBAL,
            Self::Gemma3 | Self::Qwen2 | Self::Qwen3 => &[],
        };
        GLOBAL.iter().chain(own)
    }

    fn layer_rows(self) -> impl Iterator<Item = &'static Row> {
        let own = match self {
            Self::Llama => LLAMA_LAYER,
            Self::Gemma3 => GEMMA3_LAYER,
            Self::Qwen2 => QWEN2_LAYER,
            Self::Qwen3 => QWEN3_LAYER,
        };
        LAYER.iter().chain(own)
    }
}

impl Config {
    fn dim(&self, dim: Dim) -> u64 {
        let dim = match dim {
            Dim::Embd => self.n_embd,
            Dim::Ff => self.n_ff,
            Dim::Vocab => self.n_vocab,
            Dim::Query => self.n_heads * self.head_dim,
            Dim::KeyValue => self.n_kv_heads * self.head_dim,
            Dim::Head => self.head_dim,
            Dim::RopePairs => self.rope_dims / 2,
        };
        dim as u64
    }

    /// All tensors of a model of this configuration, with their dimensions.
    pub fn tensors(&self) -> impl Iterator<Item = TensorSpec> {
        let spec = move |prefix: String| {
            move |&(name, dims, required): &Row| TensorSpec {
                name: format!("{prefix}{name}"),
                dims: dims.iter().map(|&dim| self.dim(dim)).collect(),
                required,
            }
        };
        let global = self.architecture.global_rows().map(spec(String::new()));
        let layers = (0..self.n_layers).flat_map(move |layer| {
            let rows = self.architecture.layer_rows();
            rows.map(spec(format!("blk.{layer}.")))
        });
        global.chain(layers)
    }

    /// What is wrong with the tensors of `gguf` for this configuration: missing ones, wrong
    /// shapes, types without a kernel, and tensors that the architecture does not know.
    pub fn tensor_problems(&self, gguf: &Gguf<'_>) -> Vec<ArchError> {
        let mut problems = Vec::new();
        let mut known = HashSet::new();
        for spec in self.tensors() {
            match gguf.tensor(&spec.name) {
                Some(tensor) => problems.extend(shape_problem(&spec, tensor)),
                None if spec.required => problems.push(ArchError::MissingTensor {
                    name: spec.name.clone(),
                    dims: spec.dims,
                    architecture: self.architecture.name(),
                }),
                None => {}
            }
            known.insert(spec.name);
        }
        for tensor in gguf.tensors().iter().filter(|t| !known.contains(t.name())) {
            problems.push(ArchError::UnknownTensor {
                name: tensor.name().to_owned(),
                architecture: self.architecture.name(),
            });
        }
        problems
    }
}

fn shape_problem(spec: &TensorSpec, tensor: Tensor<'_>) -> Option<ArchError> {
    if tensor.dims() != spec.dims {
        return Some(ArchError::WrongShape {
            name: spec.name.clone(),
            found: tensor.dims().to_vec(),
            expected: spec.dims.clone(),
        });
    }
    tensor.matrix().err().map(ArchError::from)
}
