//! Kernels of language-model inference on the CPU: plain loops over block-quantised weights.
//!
//! - Weights are a [`quant::Matrix`], borrowed from a file in ggml's block formats; activations
//!   are `f32` slices, row-major, `[n_tokens, …]`.
//! - Every kernel checks its shapes and answers with a [`KernelError`]; none panics on them.
//! - Where that pays, threads share the work: those of the [`Team`] that is installed on the calling
//!   thread, which stay awake from one kernel to the next; without one, rayon's current pool, which is the
//!   global one unless the program's loop over tokens runs inside `rayon::ThreadPool::install`. Results
//!   don't depend on the number of threads, nor a token's result on the tokens computed beside it, to the
//!   last bit.
//! - Products with quantised weights round their activations to 8 bits, once for all matrices that
//!   read them, and multiply integers; [`quant::Activations::F32`] takes them as they are. What is
//!   not finite in an activation comes out of every product with it.
//! - The inner loops are compiled for AVX2, AVX-VNNI, AVX-512 and AVX-512-VNNI too, and picked at
//!   run time; integer products are the same to the last bit on all of them. The environment variable
//!   `BRICK_KERNELS` forces a set (`portable`, `avx2`, `avxvnni`, `avx512`, `avx512vnni`) or `f32`
//!   activations everywhere; [`selection`] says what is used.
//!
//! Each kernel is a module by its name; this is one token through one layer's attention:
//!
//! ```
//! use brick_kernels::{attention::*, kv_cache::*, rope::*};
//!
//! # fn main() -> Result<(), brick_kernels::KernelError> {
//! let (heads, kv_heads, dim) = (4, 1, 8);
//! let mut cache = KvCache::new(1, kv_heads, dim, 16)?;
//! let rope = Rope::new(&RopeConfig {
//!     pairing: RopePairing::Neox,
//!     head_dim: dim,
//!     n_dims: dim,
//!     base: 10_000.0,
//!     freq_scale: 1.0,
//!     freq_factors: None,
//! })?;
//! let config = AttentionConfig { n_heads: heads, scale: (dim as f32).powf(-0.5), window: None };
//!
//! let mut q = vec![0.5; heads * dim];
//! let mut k = vec![0.25; kv_heads * dim];
//! let v = vec![1.0; kv_heads * dim];
//! let mut angles = RopeAngles::default();
//! rope_angles(&rope, 0, 1, &mut angles)?;
//! rope_embedding(&rope, &angles, heads, &mut q)?;
//! rope_embedding(&rope, &angles, kv_heads, &mut k)?;
//! kv_cache_write(&mut cache, 0, 0, &k, &v)?;
//! let mut out = vec![0.0; heads * dim];
//! attention(&config, &cache, 0, 0, 1, &q, &mut out)?;
//! assert_eq!(out, vec![1.0; heads * dim]); // the only value there is
//! # Ok(())
//! # }
//! ```

mod arch;
mod check;
mod error;
mod exp;
mod linear;
mod parallel;
mod zeroed;

pub mod activation;
pub mod attention;
pub mod attention_weights;
pub mod ceilings;
pub mod cross_entropy;
pub mod embedding;
pub mod gemm;
pub mod kv_cache;
pub mod lm_head;
pub mod projection;
pub mod quant;
pub mod residual;
pub mod residual_norm;
pub mod rms_norm;
pub mod rope;
pub mod sampling;
pub mod simd_config;
pub mod softmax;

pub use self::arch::{Selection, selection};
pub use self::error::KernelError;
pub use self::parallel::Team;

brick_runtime::bricks!();
