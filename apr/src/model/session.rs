//! One text being read and written by a model.

use super::observe::{Observer, Tap};
use super::scratch::Scratch;
use super::{Model, ModelError};
use brick_kernels::kv_cache::{KvCache, KvLayout};

/// Tokens that go through the layers together. More would not make the matrix products faster
/// and would need more memory: a few megabytes of activations for the models at hand.
pub(super) const BATCH: usize = 512;

/// One text: what was fed so far, as keys and values, and the buffers to continue.
#[derive(Debug)]
pub struct Session<'m> {
    pub(super) model: &'m Model<'m>,
    pub(super) cache: KvCache,
    pub(super) scratch: Scratch,
    pub(super) logits: Vec<f32>,
    pub(super) n_past: usize,
    /// Those before `n_past`, and the batch that is or was being worked on.
    fed: Vec<u32>,
    pub(super) tap: Tap<'m>,
}

impl<'m> Session<'m> {
    /// A session with room for `capacity` tokens, prompt and generation together.
    ///
    /// # Errors
    /// [`ModelError::Context`] if that is more than the model's context;
    /// [`ModelError::EmptyPrompt`] if it is 0; [`ModelError::Kernel`] if there is no memory.
    pub fn new(model: &'m Model<'m>, capacity: usize) -> Result<Self, ModelError> {
        let config = model.config();
        if capacity == 0 {
            return Err(ModelError::EmptyPrompt);
        }
        if capacity > config.context_length {
            return Err(ModelError::Context {
                asked: capacity,
                context: config.context_length,
            });
        }
        let windows: Vec<_> = (0..config.n_layers).map(|l| config.window(l)).collect();
        let cache = KvCache::with_layout(&KvLayout {
            windows: &windows,
            n_kv_heads: config.n_kv_heads,
            head_dim: config.head_dim,
            capacity,
            max_batch: BATCH,
            format: model.kv_format()?,
        })?;
        Ok(Self {
            model,
            cache,
            scratch: Scratch::default(),
            logits: vec![0.0; model.n_vocab()],
            n_past: 0,
            fed: Vec::new(),
            tap: Tap::default(),
        })
    }

    /// From now on `observer` is told what the session does and offered its tensors; there is one
    /// at a time.
    pub fn observe(&mut self, observer: &'m mut (dyn Observer + 'm)) {
        self.tap = Tap(Some(observer));
    }

    /// Tokens fed so far.
    pub fn n_past(&self) -> usize {
        self.n_past
    }

    /// The tokens fed so far; where feeding failed, with the batch that it failed on.
    pub fn fed(&self) -> &[u32] {
        &self.fed
    }

    /// The model that it is a session of.
    pub fn model(&self) -> &'m Model<'m> {
        self.model
    }

    /// The keys and values of the tokens fed so far.
    pub fn cache(&self) -> &KvCache {
        &self.cache
    }

    /// The logits after the last token that was fed, `[n_vocab]`; zeros before the first.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// Forgets everything that was fed.
    pub fn clear(&mut self) {
        self.cache.truncate(0);
        self.logits.fill(0.0);
        self.n_past = 0;
        self.fed.clear();
    }

    /// Feeds the next tokens of the text and returns the logits, `[n_vocab]`, for the token that
    /// follows the last of them.
    ///
    /// # Errors
    /// If there are no tokens, no room or no memory for them, or a token is not in the vocabulary.
    pub fn feed(&mut self, tokens: &[u32]) -> Result<&[f32], ModelError> {
        self.feed_with(tokens, |_| {})
    }

    /// [`feed`](Self::feed), telling `progress` after each batch how many tokens are done.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_with(
        &mut self,
        tokens: &[u32],
        mut progress: impl FnMut(usize),
    ) -> Result<&[f32], ModelError> {
        self.check_room(tokens)?;
        let used = self.n_past;
        for batch in tokens.chunks(BATCH) {
            self.advance(batch)?;
            progress(self.n_past - used);
        }
        self.head()?;
        Ok(&self.logits)
    }

    /// Takes the next tokens, at most [`BATCH`] of them, through the layers.
    pub(super) fn advance(&mut self, batch: &[u32]) -> Result<(), ModelError> {
        self.fed.truncate(self.n_past);
        self.fed.extend_from_slice(batch);
        self.forward(batch)?;
        self.n_past += batch.len();
        Ok(())
    }

    /// Whether `tokens` are some, and there is room for them.
    pub(super) fn check_room(&self, tokens: &[u32]) -> Result<(), ModelError> {
        let (used, more, capacity) = (self.n_past, tokens.len(), self.cache.capacity());
        if more == 0 {
            return Err(ModelError::EmptyPrompt);
        }
        if more > capacity - used {
            return Err(ModelError::SessionFull {
                used,
                more,
                capacity,
            });
        }
        Ok(())
    }
}
