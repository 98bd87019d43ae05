//! The activations of one batch of tokens, kept from call to call.

use super::{Model, ModelError};
use brick_kernels::KernelError;
use brick_kernels::rope::RopeAngles;
use std::ops::{Deref, DerefMut};

/// Buffers for `n` tokens, each row-major `[n, …]`. They grow on demand and keep what they have: a
/// batch that follows a shorter one neither allocates nor clears.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The residual stream, `[n, n_embd]`.
    pub(super) x: Buffer,
    /// Its norm, `[n, n_embd]`.
    pub(super) h: Buffer,
    /// `[n, n_embd]`: what a projection back to the stream wrote, then its norm where it has one.
    pub(super) back: Buffer,
    /// `[n, n_heads, head_dim]`.
    pub(super) q: Buffer,
    /// `[n, n_kv_heads, head_dim]`.
    pub(super) k: Buffer,
    /// `[n, n_kv_heads, head_dim]`.
    pub(super) v: Buffer,
    /// The heads' outputs, `[n, n_heads, head_dim]`.
    pub(super) heads: Buffer,
    /// The feed-forward network's inner layer, `[n, n_ff]`.
    pub(super) ff: Buffer,
    /// For each of the model's ropes, the angles of the batch.
    pub(super) angles: Vec<RopeAngles>,
}

impl Scratch {
    /// Makes every buffer exactly as long as `n` tokens need; what is in them is anything.
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
            buffer.fit(n.saturating_mul(width))?;
        }
        Ok(())
    }
}

/// The first `len` of the floats it holds.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    held: Vec<f32>,
    len: usize,
}

impl Buffer {
    /// Makes the buffer as long as `len`.
    fn fit(&mut self, len: usize) -> Result<(), KernelError> {
        let more = len.saturating_sub(self.held.len());
        if more > 0 {
            let no_memory = |_| KernelError::OutOfMemory {
                kernel: "activations",
                bytes: len.saturating_mul(size_of::<f32>()),
            };
            self.held.try_reserve_exact(more).map_err(no_memory)?;
            self.held.resize(len, 0.0);
        }
        self.len = len;
        Ok(())
    }
}

impl Deref for Buffer {
    type Target = [f32];

    #[inline]
    fn deref(&self) -> &[f32] {
        &self.held[..self.len]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.held[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::Buffer;
    use brick_kernels::KernelError;

    #[test]
    fn no_memory_is_an_error_and_changes_nothing() {
        let mut buffer = Buffer::default();
        buffer.fit(1).unwrap();
        for len in [1 << 55, usize::MAX] {
            let bytes = len.saturating_mul(4);
            let expected = KernelError::OutOfMemory {
                kernel: "activations",
                bytes,
            };
            assert_eq!(buffer.fit(len), Err(expected));
            assert_eq!(*buffer, [0.0]);
        }
    }

    #[test]
    fn shrinks_and_grows_within_what_it_holds() {
        let mut buffer = Buffer::default();
        buffer.fit(3).unwrap();
        buffer.copy_from_slice(&[1.0, 2.0, 3.0]);
        let held = buffer.as_ptr();
        buffer.fit(1).unwrap();
        assert_eq!(*buffer, [1.0]);
        buffer.fit(3).unwrap();
        assert_eq!((buffer.len(), buffer.as_ptr()), (3, held));
        buffer.fit(5).unwrap();
        assert_eq!(buffer[3..], [0.0, 0.0]);
    }
}
