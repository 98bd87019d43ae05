//! From the last hidden state to a logit for each token of the vocabulary.

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;
use crate::linear::{Input, check_shapes, project, store};
use crate::quant::Matrix;

/// `logits[t] = W x[t]`, with `x` `[n_tokens, n_embd]` and `logits` `[n_tokens, n_vocab]`.
///
/// The largest matrix of a small model: ask for the tokens whose logits are needed, which in
/// prefill is the last one only.
///
/// # Errors
/// If a length does not match.
#[brick(
    id = LmHead,
    budget_us = 50 + w.cols() * (logits.len() + 7 * w.rows()) / 16000,
    assert(logits = "finite"),
    flops = 2 * w.cols() * logits.len(),
    bytes = w.byte_len() + 4 * (x.len() + logits.len()),
    category = Output
)]
pub fn lm_head(
    w: &Matrix<'_>,
    x: &[f32],
    n_tokens: usize,
    logits: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("lm_head");
    check_shapes(check, w, ("x.len()", x), n_tokens, ("logits.len()", logits))?;
    project([w], &Input::new(x, n_tokens, &[w])?, logits, store);
    Ok(())
}

/// `x[i] = cap * tanh(x[i] / cap)`: keeps logits within ±`cap` (Bello et al., 2017).
///
/// # Errors
/// If `cap` is not a positive finite number.
#[brick(
    id = LogitSoftcap,
    budget_us = 5 + x.len() / 50,
    assert(x = "finite"),
    flops = 22 * x.len(),
    bytes = 8 * x.len(),
    category = Output
)]
pub fn logit_softcap(cap: f32, x: &mut [f32]) -> Result<(), KernelError> {
    let holds = cap > 0.0 && cap.is_finite();
    Check("logit_softcap").parameter("cap", cap, holds, "a positive finite number")?;
    for x in x {
        *x = cap * (*x / cap).tanh();
    }
    Ok(())
}
