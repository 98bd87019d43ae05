//! How well a model foretells a text.

use super::session::BATCH;
use super::{ModelError, Session};
use brick_kernels::cross_entropy::cross_entropy;
use brick_runtime::timeline::span_scope;

/// Logits that are held at a time, at most: 64 MiB of them.
const LOGITS: usize = 1 << 24;

impl Session<'_> {
    /// Feeds the next tokens of the text and returns how the model foretold `tokens[first + 1..]`: for
    /// each, in order, the negative logarithm (in nats) of the probability that it had, all tokens
    /// before it being known.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_scored(&mut self, tokens: &[u32], first: usize) -> Result<Vec<f64>, ModelError> {
        self.check_room(tokens)?;
        let mut nll = vec![0.0; tokens.len().saturating_sub(first + 1)];
        let mut before = 0;
        for batch in tokens.chunks(BATCH) {
            self.advance(batch)?;
            // The tokens of the batch whose successors are asked for. The last of all has none.
            let end = (before + batch.len()).min(tokens.len() - 1);
            let start = before.max(first);
            if start < end {
                let targets = &tokens[start + 1..end + 1];
                self.score(
                    start - before,
                    targets,
                    &mut nll[start - first..end - first],
                )?;
            }
            before += batch.len();
        }
        // As after every feed: the logits are those after the last token.
        self.head()?;
        Ok(nll)
    }

    /// How the tokens from `row` on of the last batch foretell `targets`.
    fn score(&mut self, row: usize, targets: &[u32], nll: &mut [f64]) -> Result<(), ModelError> {
        let _span = span_scope("head");
        let (n_embd, n_vocab) = (self.model.config().n_embd, self.model.n_vocab());
        let at_a_time = (LOGITS / n_vocab).clamp(1, targets.len());
        let mut logits = vec![0.0; at_a_time * n_vocab];
        let s = &mut self.scratch;
        let x = s.x[row * n_embd..].chunks(at_a_time * n_embd);
        let parts = targets.chunks(at_a_time).zip(nll.chunks_mut(at_a_time));
        for (x, (targets, nll)) in x.zip(parts) {
            let n = targets.len();
            let logits = &mut logits[..n * n_vocab];
            self.model
                .read_out(&x[..n * n_embd], &mut s.h[..n * n_embd], logits)?;
            cross_entropy(logits, targets, nll)?;
        }
        Ok(())
    }
}
