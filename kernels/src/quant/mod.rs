//! Block formats, byte for byte as ggml lays them out in a GGUF file.
//!
//! A block is a plain struct of bytes: its alignment is 1, so a slice of blocks can be borrowed
//! from a memory map at any offset, and its size is asserted at compile time. Dequantisation
//! gives the same bits as ggml: the same order of operations, no fused multiply-add.
//!
//! [`Format`] names the formats a weight matrix can have and knows nothing of a file's type
//! numbers; [`Matrix`] is a checked view of such a matrix. [`BlockQ8K`] is for activations only
//! and never lies in a file, so it is no [`Format`].

mod activation;
mod block;
mod format;
mod half;
mod k_scales;
mod matrix;
mod q4;
mod q4_k;
mod q5_0;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_k;
mod rounded;

pub use self::activation::{ActivationFormat, Activations, round_activations};
pub use self::format::Format;
pub use self::half::F16;
pub use self::matrix::{BadScale, Matrix};
pub use self::q4::{BlockQ4_0, BlockQ4_1};
pub use self::q4_k::BlockQ4K;
pub use self::q5_0::BlockQ5_0;
pub use self::q5_k::BlockQ5K;
pub use self::q6_k::BlockQ6K;
pub use self::q8_0::{BlockQ8_0, quantise_q8_0};
pub use self::q8_k::{BlockQ8K, quantise_q8_k};

pub(crate) use self::block::dequantise;
pub(crate) use self::k_scales::scales_and_mins;
pub(crate) use self::rounded::{Rounded, Rounded32, round_256};

#[cfg(target_endian = "big")]
compile_error!("blocks are borrowed from little-endian files as they lie; big-endian is untried");
