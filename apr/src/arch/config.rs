//! Hyperparameters, read from metadata.

use super::{ArchError, Architecture};
use crate::gguf::{Array, FromValue, Gguf, GgufError};
use brick_kernels::activation::Activation;
use brick_kernels::rope::RopeConfig;
use std::num::NonZeroUsize;

/// Base of RoPE where the file does not say (llama.cpp's default for all architectures).
const ROPE_BASE: f32 = 10_000.0;
/// Gemma 3's base in local layers. Files leave it out; llama.cpp takes this.
const GEMMA3_LOCAL_ROPE_BASE: f32 = 10_000.0;
/// One layer in so many of Gemma 3 is global. Files leave it out; llama.cpp takes this.
const GEMMA3_PERIOD: u32 = 6;
/// The one Gemma 3 that scales its scores by `1 / √(n_embd / n_heads)` is the one with 62 layers.
const GEMMA3_27B_LAYERS: u32 = 62;

/// The hyperparameters of a model. Integers that count something are at least 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The architecture.
    pub architecture: Architecture,
    /// Positions that the model was trained on: `context_length`.
    pub context_length: usize,
    /// Width of the residual stream: `embedding_length`.
    pub n_embd: usize,
    /// Layers: `block_count`.
    pub n_layers: usize,
    /// Width of the feed-forward network: `feed_forward_length`.
    pub n_ff: usize,
    /// Query heads: `attention.head_count`.
    pub n_heads: usize,
    /// Key-value heads: `attention.head_count_kv`, by default as many as query heads. Divides
    /// `n_heads`.
    pub n_kv_heads: usize,
    /// Elements of a head: `attention.key_length`, by default `n_embd / n_heads`. The values'
    /// `attention.value_length` must be the same.
    pub head_dim: usize,
    /// Tokens: the length of `tokenizer.ggml.tokens`, which `vocab_size` must agree with.
    pub n_vocab: usize,
    /// ε of every RMSNorm: `attention.layer_norm_rms_epsilon`.
    pub rms_eps: f32,
    /// Elements of a head that RoPE rotates: `rope.dimension_count`, by default `head_dim`. Even.
    pub rope_dims: usize,
    /// Base of RoPE, in global layers: `rope.freq_base`, by default 10⁴.
    pub rope_base: f32,
    /// Factor on RoPE's angles, in global layers: 1 / `rope.scaling.factor` (once called
    /// `rope.scale_linear`), by default 1.
    pub rope_freq_scale: f32,
    /// Layers that see only a window (Gemma 3, where the file has `attention.sliding_window`).
    pub sliding_window: Option<SlidingWindow>,
    /// Activation of the feed-forward gate.
    pub activation: Activation,
    /// Factor on embeddings: √`n_embd` for Gemma, else 1.
    pub embedding_scale: f32,
    /// Factor on attention scores: 1/√`head_dim`, but for Gemma 3 27B.
    pub attention_scale: f32,
    /// `c` in logits = c·tanh(logits / c), where the file has `final_logit_softcapping`.
    pub logit_softcap: Option<f32>,
}

/// Sliding-window attention in most of the layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlidingWindow {
    /// Positions that a query of a local layer sees, its own included.
    pub window: NonZeroUsize,
    /// Every so-manieth layer is global, the others local: `attention.sliding_window_pattern`,
    /// by default 6.
    pub period: usize,
    /// Base of RoPE in local layers: `rope.freq_base_swa`, by default 10⁴. Their frequencies are
    /// never scaled.
    pub rope_base: f32,
}

impl Config {
    /// Reads the hyperparameters.
    ///
    /// # Errors
    /// All that is wrong with the metadata, at least one thing.
    pub fn read(gguf: &Gguf<'_>) -> Result<Self, Vec<ArchError>> {
        let architecture = read_architecture(gguf).map_err(|error| vec![error])?;
        let mut keys = Keys {
            gguf,
            architecture,
            problems: Vec::new(),
        };
        let config = keys.read_config();
        match keys.problems {
            problems if problems.is_empty() => Ok(config),
            problems => Err(problems),
        }
    }

    /// Reads the hyperparameters and checks the tensors: what is returned can be run.
    ///
    /// # Errors
    /// The first thing that is wrong; `apr inspect` lists all.
    pub fn load(gguf: &Gguf<'_>) -> Result<Self, ArchError> {
        // `read` never fails without a problem.
        let config = Self::read(gguf).map_err(|mut problems| problems.swap_remove(0))?;
        match config.tensor_problems(gguf).into_iter().next() {
            None => Ok(config),
            Some(problem) => Err(problem),
        }
    }

    /// The window of a layer; `None` where it sees all positions.
    pub fn window(&self, layer: usize) -> Option<NonZeroUsize> {
        self.local(layer).map(|local| local.window)
    }

    /// How a layer rotates its queries and keys. `freq_factors` are those of
    /// `rope_freqs.weight`, where the file has it.
    pub fn rope<'f>(&self, layer: usize, freq_factors: Option<&'f [f32]>) -> RopeConfig<'f> {
        let (base, freq_scale) = match self.local(layer) {
            Some(local) => (local.rope_base, 1.0),
            None => (self.rope_base, self.rope_freq_scale),
        };
        RopeConfig {
            pairing: self.architecture.rope_pairing(),
            head_dim: self.head_dim,
            n_dims: self.rope_dims,
            base,
            freq_scale,
            freq_factors,
        }
    }

    fn local(&self, layer: usize) -> Option<SlidingWindow> {
        self.sliding_window
            .filter(|swa| layer % swa.period < swa.period - 1)
    }
}

fn read_architecture(gguf: &Gguf<'_>) -> Result<Architecture, ArchError> {
    let name: &str = gguf.require("general.architecture")?;
    Architecture::from_name(name).ok_or_else(|| ArchError::Architecture(name.into()))
}

/// Reads keys and collects what is wrong, so that a file is told all its faults at once. What
/// cannot be read becomes 1, to go on with.
struct Keys<'g, 'a> {
    gguf: &'g Gguf<'a>,
    architecture: Architecture,
    problems: Vec<ArchError>,
}

impl<'a> Keys<'_, 'a> {
    fn read_config(&mut self) -> Config {
        let gemma3 = self.architecture == Architecture::Gemma3;
        self.refuse_unsupported();
        let n_embd = self.count("embedding_length", None);
        let n_heads = self.count("attention.head_count", None);
        let n_layers = self.layers();
        let head_dim = self.count("attention.key_length", Some(n_embd / n_heads));
        let swa = if gemma3 { self.sliding_window() } else { None };
        Config {
            architecture: self.architecture,
            context_length: self.count("context_length", None) as usize,
            n_embd: n_embd as usize,
            n_layers: n_layers as usize,
            n_ff: self.count("feed_forward_length", None) as usize,
            n_heads: n_heads as usize,
            n_kv_heads: self.kv_heads(n_heads) as usize,
            head_dim: self.head_dim(head_dim) as usize,
            n_vocab: self.vocab() as usize,
            rms_eps: self.positive("attention.layer_norm_rms_epsilon", None),
            rope_dims: self.rope_dims(head_dim) as usize,
            rope_base: self.positive("rope.freq_base", Some(ROPE_BASE)),
            rope_freq_scale: self.rope_freq_scale(),
            sliding_window: swa,
            activation: self.architecture.activation(),
            embedding_scale: if gemma3 { (n_embd as f32).sqrt() } else { 1.0 },
            attention_scale: if gemma3 && n_layers == GEMMA3_27B_LAYERS {
                (n_embd as f32 / n_heads as f32).sqrt().recip()
            } else {
                (head_dim as f32).sqrt().recip()
            },
            logit_softcap: self.softcap(),
        }
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.name())
    }

    fn find<T: FromValue<'a>>(&mut self, key: &str) -> Option<T> {
        self.gguf.find(key).unwrap_or_else(|error| {
            self.problems.push(error.into());
            None
        })
    }

    fn wrong(&mut self, name: &str, value: impl ToString, expected: impl ToString) {
        self.problems.push(ArchError::Value {
            key: self.key(name),
            value: value.to_string(),
            expected: expected.to_string(),
        });
    }

    /// An integer above 0. Without a default the key must be there.
    fn count(&mut self, name: &str, default: Option<u32>) -> u32 {
        let before = self.problems.len();
        match self.find(&self.key(name)).or(default) {
            Some(0) => self.wrong(name, 0, "at least 1"),
            Some(value) => return value,
            None if self.problems.len() == before => self.missing(name),
            None => {}
        }
        1
    }

    /// A finite number above 0. Without a default the key must be there.
    fn positive(&mut self, name: &str, default: Option<f32>) -> f32 {
        let before = self.problems.len();
        match self.find::<f32>(&self.key(name)).or(default) {
            Some(value) if value.is_finite() && value > 0.0 => return value,
            Some(value) => self.wrong(name, value, "a finite number above 0"),
            None if self.problems.len() == before => self.missing(name),
            None => {}
        }
        1.0
    }

    fn missing(&mut self, name: &str) {
        let key = self.key(name);
        self.problems.push(GgufError::MissingKey { key }.into());
    }

    /// Layers are counted against the tensors that are there: a corrupt count must not make
    /// billions of missing tensors.
    fn layers(&mut self) -> u32 {
        let layers = self.count("block_count", None);
        let tensors = self.gguf.tensors().len();
        if layers as usize <= tensors {
            return layers;
        }
        let expected = format!("no more than the file's {tensors} tensors");
        self.wrong("block_count", layers, expected);
        1
    }

    fn kv_heads(&mut self, n_heads: u32) -> u32 {
        let name = "attention.head_count_kv";
        let kv_heads = self.count(name, Some(n_heads));
        if !n_heads.is_multiple_of(kv_heads) {
            let expected = format!("a divisor of the {n_heads} query heads");
            self.wrong(name, kv_heads, expected);
        }
        kv_heads
    }

    fn head_dim(&mut self, keys: u32) -> u32 {
        let name = "attention.value_length";
        let values = self.count(name, Some(keys));
        if values != keys {
            let expected = format!("the keys' {keys}");
            self.wrong(name, values, expected);
        }
        keys
    }

    fn vocab(&mut self) -> u32 {
        let tokens = match self.gguf.require::<Array<'a>>("tokenizer.ggml.tokens") {
            Ok(tokens) => tokens,
            Err(error) => {
                self.problems.push(error.into());
                return 1;
            }
        };
        let tokens = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        let size = self.count("vocab_size", Some(tokens));
        if size != tokens {
            let expected = format!("the {tokens} tokens of the vocabulary");
            self.wrong("vocab_size", size, expected);
        }
        tokens
    }

    fn rope_dims(&mut self, head_dim: u32) -> u32 {
        let name = "rope.dimension_count";
        let dims = self.count(name, Some(head_dim));
        if dims > head_dim || !dims.is_multiple_of(2) {
            let expected = format!("an even number up to the head's {head_dim}");
            self.wrong(name, dims, expected);
        }
        dims
    }

    fn rope_freq_scale(&mut self) -> f32 {
        let scaling: Option<&str> = self.find(&self.key("rope.scaling.type"));
        match scaling {
            Some("none") => 1.0,
            None | Some("linear") => {
                // What older files call the factor.
                let old = self.positive("rope.scale_linear", Some(1.0));
                self.positive("rope.scaling.factor", Some(old)).recip()
            }
            Some(other) => {
                self.unsupported("rope.scaling.type", format!("{other:?}"));
                1.0
            }
        }
    }

    fn sliding_window(&mut self) -> Option<SlidingWindow> {
        let window: u32 = self.find(&self.key("attention.sliding_window"))?;
        let window = NonZeroUsize::new(window as usize)?;
        let pattern = "attention.sliding_window_pattern";
        let period = self.count(pattern, Some(GEMMA3_PERIOD));
        Some(SlidingWindow {
            window,
            period: period as usize,
            rope_base: self.positive("rope.freq_base_swa", Some(GEMMA3_LOCAL_ROPE_BASE)),
        })
    }

    fn softcap(&mut self) -> Option<f32> {
        let name = "final_logit_softcapping";
        let cap: f32 = self.find(&self.key(name))?;
        match cap {
            // llama.cpp's way of saying "none".
            0.0 => None,
            _ => Some(self.positive(name, None)),
        }
    }

    fn unsupported(&mut self, name: &str, value: String) {
        let key = self.key(name);
        self.problems.push(ArchError::Unsupported { key, value });
    }

    /// Keys of model variants whose forward pass is another one.
    fn refuse_unsupported(&mut self) {
        if let Some(experts @ 1..) = self.find::<u32>(&self.key("expert_count")) {
            self.unsupported("expert_count", experts.to_string());
        }
        if self.find(&self.key("attention.causal")) == Some(false) {
            self.unsupported("attention.causal", "false".into());
        }
    }
}
