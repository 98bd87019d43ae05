//! The activations of one batch of tokens, kept from call to call.

use super::{Model, ModelError};
use brick_kernels::KernelError;

/// Buffers for `n` tokens, each row-major `[n, …]`; grown on demand, so that decoding, one token
/// after the other, allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The residual stream, `[n, n_embd]`.
    pub(super) x: Vec<f32>,
    /// Its norm, and each block's contribution before it is added, `[n, n_embd]`.
    pub(super) h: Vec<f32>,
    /// `[n, n_embd]`: what a projection back to the stream wrote, before a norm of its own.
    pub(super) back: Vec<f32>,
    /// `[n, n_heads, head_dim]`.
    pub(super) q: Vec<f32>,
    /// `[n, n_kv_heads, head_dim]`.
    pub(super) k: Vec<f32>,
    /// `[n, n_kv_heads, head_dim]`.
    pub(super) v: Vec<f32>,
    /// The heads' outputs, `[n, n_heads, head_dim]`.
    pub(super) heads: Vec<f32>,
    /// The feed-forward network's inner layer, `[n, n_ff]`.
    pub(super) ff: Vec<f32>,
}

impl Scratch {
    /// Makes every buffer exactly as long as `n` tokens need.
    ///
    /// # Errors
    /// [`KernelError::OutOfMemory`]: the widths are the file's, so no memory for them is a fault to
    /// tell, not one to abort on.
    pub(super) fn fit(&mut self, model: &Model<'_>, n: usize) -> Result<(), ModelError> {
        let c = model.config();
        for (buffer, width) in [
            (&mut self.x, c.n_embd),
            (&mut self.h, c.n_embd),
            (&mut self.back, c.n_embd),
            (&mut self.q, c.n_heads * c.head_dim),
            (&mut self.k, c.n_kv_heads * c.head_dim),
            (&mut self.v, c.n_kv_heads * c.head_dim),
            (&mut self.heads, c.n_heads * c.head_dim),
            (&mut self.ff, c.n_ff),
        ] {
            resize(buffer, n.saturating_mul(width))?;
        }
        Ok(())
    }
}

/// Makes `buffer` as long as `len`.
fn resize(buffer: &mut Vec<f32>, len: usize) -> Result<(), KernelError> {
    let more = len.saturating_sub(buffer.len());
    buffer
        .try_reserve_exact(more)
        .map_err(|_| KernelError::OutOfMemory {
            kernel: "activations",
            bytes: len.saturating_mul(size_of::<f32>()),
        })?;
    buffer.resize(len, 0.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::resize;
    use brick_kernels::KernelError;

    #[test]
    fn no_memory_is_an_error() {
        let mut buffer = vec![1.0];
        for len in [1 << 55, usize::MAX] {
            let bytes = len.saturating_mul(4);
            let expected = KernelError::OutOfMemory {
                kernel: "activations",
                bytes,
            };
            assert_eq!(resize(&mut buffer, len), Err(expected));
        }
        resize(&mut buffer, 3).unwrap();
        assert_eq!(buffer, [1.0, 0.0, 0.0]);
        resize(&mut buffer, 1).unwrap();
        assert_eq!(buffer, [1.0]);
    }
}
