//! How surprised a model is by what follows: the loss of training, the sum behind a perplexity.

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::parallel::{Plan, cut, ranges};

/// Exponentials that are added up in `f32`, before their sum is added in `f64`.
const RUN: usize = 256;

/// `nll[t] = ln Σ exp(logits[t, :]) - logits[t, targets[t]]`: the negative logarithm, in nats, of the
/// probability that softmax gives to the target. `logits` is `[n, n_vocab]`, `targets` and `nll` are
/// `[n]`.
///
/// The maximum is taken out first so that no exponential overflows; the sum over a vocabulary and its
/// logarithm are `f64`, as in llama.cpp's perplexity.
///
/// # Errors
/// If there is no target, `logits` is not as many rows, a target is not in them, or `nll` is not as
/// long as `targets`.
#[brick(
    id = CrossEntropy,
    budget_us = 5 + logits.len() / 100,
    assert(nll = "finite"),
    flops = 4 * logits.len(),
    bytes = 4 * (logits.len() + 3 * targets.len()),
    category = Output
)]
pub fn cross_entropy(logits: &[f32], targets: &[u32], nll: &mut [f64]) -> Result<(), KernelError> {
    let check = Check("cross_entropy");
    check.non_zero("targets.len()", targets.len())?;
    check.equal("nll.len()", nll.len(), targets.len())?;
    let n_vocab = check.quotient("logits.len()", logits.len(), targets.len())?;
    for &target in targets {
        check.index("targets[i]", target as usize, n_vocab)?;
    }
    let isa = Isa::choose()?;
    let plan = Plan::new(targets.len(), 10 * n_vocab);
    let parts = ranges(targets.len(), 1, plan.n_parts());
    let outs = cut(nll, parts.clone().map(|rows| rows.len()));
    plan.run(
        "rows",
        parts.zip(outs),
        || (),
        |(), (rows, nll)| {
            for (row, nll) in rows.zip(nll) {
                let logits = &logits[row * n_vocab..][..n_vocab];
                *nll = negative_log(isa, logits, targets[row] as usize);
            }
        },
    );
    Ok(())
}

/// `-ln(softmax(logits)[target])`.
fn negative_log(isa: Isa, logits: &[f32], target: usize) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut run = [0.0; RUN];
    let sums = logits.chunks(RUN).map(|logits| {
        let run = &mut run[..logits.len()];
        run.copy_from_slice(logits);
        f64::from(isa.exponentials(run, 1.0, max).1)
    });
    let sum: f64 = sums.sum();
    f64::from(max) + sum.ln() - f64::from(logits[target])
}
