//! The architectures that can be run: what they need of a file, in one place.
//!
//! `apr inspect` lists what is missing, the model loader refuses to go on; both read the
//! hyperparameters with [`Config::read`] and compare the tensors with [`Config::tensors`].

mod config;
mod error;
mod tensors;

pub use config::{Config, SlidingWindow};
pub use error::ArchError;
pub use tensors::TensorSpec;

use brick_kernels::activation::Activation;
use brick_kernels::rope::RopePairing;

/// A family of models with one forward pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 1 to 3, SmolLM, and what else is written as `llama`.
    Llama,
    /// Gemma 3, text only.
    Gemma3,
    /// Qwen 2 and 2.5.
    Qwen2,
    /// Qwen 3, dense.
    Qwen3,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Llama, Self::Gemma3, Self::Qwen2, Self::Qwen3];

    /// The name in `general.architecture`, which also begins its metadata keys.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Llama => "llama",
            Self::Gemma3 => "gemma3",
            Self::Qwen2 => "qwen2",
            Self::Qwen3 => "qwen3",
        }
    }

    /// The architecture of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.name() == name)
    }

    /// How it pairs elements for RoPE: Llama's converter permutes its weights so that neighbours
    /// pair, the others keep split halves.
    pub const fn rope_pairing(self) -> RopePairing {
        match self {
            Self::Llama => RopePairing::Norm,
            Self::Gemma3 | Self::Qwen2 | Self::Qwen3 => RopePairing::Neox,
        }
    }

    /// The activation of its feed-forward gate.
    pub const fn activation(self) -> Activation {
        match self {
            Self::Gemma3 => Activation::GeluTanh,
            Self::Llama | Self::Qwen2 | Self::Qwen3 => Activation::Silu,
        }
    }

    fn known() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}
