//! The matrix product behind every projection: `y[t, r] = W[r, :] · x[t, :]`.
//!
//! Two ways lead to it. Weights in a block format are multiplied as integers with activations
//! rounded to 8 bits ([`rounded`]), unless the matrix or the environment says otherwise; then, and
//! in the formats without blocks, rows are dequantised to `f32` ([`exact`]). Both have a form for
//! one token, which reads each weight once, and one for several, which unpacks a panel of rows for
//! all of them. Threads take ranges of rows.

mod exact;
mod rounded;

use brick_runtime::timeline::handover;
use bytemuck::Zeroable;
use rayon::prelude::*;

use crate::KernelError;
use crate::arch::Choice;
use crate::check::Check;
use crate::parallel::outputs_per_task;
use crate::quant::{ActivationFormat, Activations, BlockQ8K, Matrix, Rounded, Rounded32};

/// Rows are handed out in multiples of this, so that only the last task has a ragged end.
const ROW_MULTIPLE: usize = 16;

/// What a task's span is called in a timeline.
const ROWS: &str = "rows";

/// Checks that `x` is `[n_tokens, w.cols()]` and `y` is `[n_tokens, w.rows()]`.
pub(crate) fn check_shapes(
    check: Check,
    w: &Matrix<'_>,
    x: (&'static str, &[f32]),
    n_tokens: usize,
    y: (&'static str, &[f32]),
) -> Result<(), KernelError> {
    check.equal(x.0, x.1.len(), check.product(x.0, [n_tokens, w.cols()])?)?;
    check.equal(y.0, y.1.len(), check.product(y.0, [n_tokens, w.rows()])?)
}

/// Activations, `[n_tokens, k]`, with what the matrices that they are for want them rounded to:
/// once, however many matrices there are.
pub(crate) struct Input<'x> {
    choice: Choice,
    x: &'x [f32],
    n_tokens: usize,
    rounded: Rounded,
}

impl<'x> Input<'x> {
    /// For products with `matrices`, whose shapes have been checked.
    ///
    /// # Errors
    /// If the environment asks for an instruction set that there is not.
    pub(crate) fn new(
        x: &'x [f32],
        n_tokens: usize,
        matrices: &[&Matrix<'_>],
    ) -> Result<Self, KernelError> {
        let choice = Choice::get()?;
        let wanted = |format| {
            let formats = matrices.iter().map(|w| taken_by(choice, w));
            formats.flatten().any(|taken| taken == format)
        };
        let mut rounded = Rounded::default();
        if wanted(ActivationFormat::Q8_0) {
            let x = x.as_chunks().0;
            let mut blocks: Vec<Rounded32> = vec![Zeroable::zeroed(); x.len()];
            in_parallel(x, &mut blocks, |x, out| choice.isa.round_32(x, out));
            rounded.set_blocks_32(blocks, n_tokens);
        }
        if wanted(ActivationFormat::Q8K) {
            let x = x.as_chunks().0;
            let mut blocks: Vec<BlockQ8K> = vec![Zeroable::zeroed(); x.len()];
            in_parallel(x, &mut blocks, |x, out| choice.isa.round_256(x, out));
            rounded.set_blocks_256(blocks, n_tokens);
        }
        Ok(Self {
            choice,
            x,
            n_tokens,
            rounded,
        })
    }
}

/// What activations are rounded to for products with `w`; `None` if they stay as they are.
fn taken_by(choice: Choice, w: &Matrix<'_>) -> Option<ActivationFormat> {
    match w.activations() {
        Activations::Rounded if choice.rounds => ActivationFormat::for_weights(w.format()),
        _ => None,
    }
}

/// Rounds blocks of `N` elements, by ranges where there are many.
fn in_parallel<const N: usize, B: Send>(
    x: &[[f32; N]],
    out: &mut [B],
    round: impl Fn(&[[f32; N]], &mut [B]) + Sync,
) {
    let per_task = outputs_per_task(x.len(), 4 * N);
    if per_task >= x.len() {
        return round(x, out);
    }
    let work = handover();
    let tasks = x.par_chunks(per_task).zip(out.par_chunks_mut(per_task));
    tasks.for_each_init(|| work.task("rounding"), |_task, (x, out)| round(x, out));
}

/// `y[t, r] = finish(W_0[r, :] · x[t, :], …)` for `N` matrices of the same shape.
///
/// `finish(r, products, out)` gets, for one token, the products of consecutive rows from `r` on
/// with each matrix, and writes as many outputs. The shapes have been checked, and `input` was made
/// for these matrices, perhaps among others.
pub(crate) fn project<const N: usize>(
    w: [&Matrix<'_>; N],
    input: &Input<'_>,
    y: &mut [f32],
    finish: impl Fn(usize, [&[f32]; N], &mut [f32]) + Sync,
) {
    let n_tokens = input.n_tokens;
    if n_tokens == 0 {
        return;
    }
    let (n_rows, k) = (w[0].rows(), w[0].cols());
    let flops_per_row = (2 * N * k).saturating_mul(n_tokens);
    let per_task = outputs_per_task(n_rows, flops_per_row).next_multiple_of(ROW_MULTIPLE);
    let rows_of = |task: usize| task * per_task..n_rows.min((task + 1) * per_task);
    // The same for any number of tokens, so that a token's result doesn't depend on it.
    let rounds = w.iter().all(|w| taken_by(input.choice, w).is_some());
    let (isa, x, a) = (input.choice.isa, input.x, &input.rounded);
    let work = handover();
    if n_tokens == 1 {
        let run = |(task, y): (usize, &mut [f32])| {
            if rounds {
                rounded::one_token(isa, w, a, rows_of(task), y, &finish);
            } else {
                exact::one_token(isa, w, x, rows_of(task), y, &finish);
            }
        };
        if per_task >= n_rows {
            run((0, y));
        } else {
            let tasks = y.par_chunks_mut(per_task).enumerate();
            tasks.for_each_init(|| work.task(ROWS), |_task, rows| run(rows));
        }
        return;
    }
    let mut columns = split_columns(y, n_tokens, n_rows, per_task);
    let tasks = columns.par_chunks_mut(n_tokens).enumerate();
    if rounds {
        tasks.for_each_init(
            || (work.task(ROWS), rounded::Buffers::new(w, n_tokens)),
            |(_task, buffers), (task, y)| {
                rounded::many_tokens(isa, w, a, rows_of(task), y, buffers, &finish);
            },
        );
    } else {
        tasks.for_each_init(
            || (work.task(ROWS), exact::Buffers::new(k, N)),
            |(_task, buffers), (task, y)| {
                exact::many_tokens(isa, w, x, rows_of(task), y, buffers, &finish);
            },
        );
    }
}

/// The pieces of `y` that the tasks write: for each range of `per_task` rows, one slice for each
/// token, range by range.
fn split_columns(
    y: &mut [f32],
    n_tokens: usize,
    n_rows: usize,
    per_task: usize,
) -> Vec<&mut [f32]> {
    let n_tasks = n_rows.div_ceil(per_task);
    let mut pieces = Vec::new();
    pieces.resize_with(n_tasks * n_tokens, Default::default);
    for (t, y) in y.chunks_exact_mut(n_rows).enumerate() {
        for (task, piece) in y.chunks_mut(per_task).enumerate() {
            pieces[task * n_tokens + t] = piece;
        }
    }
    pieces
}

/// The `finish` of a plain product.
pub(crate) fn store(_row: usize, [products]: [&[f32]; 1], out: &mut [f32]) {
    out.copy_from_slice(products);
}
