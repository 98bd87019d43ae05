//! The matrix product behind every projection: `y[t, r] = W[r, :] · x[t, :]`.
//!
//! Two ways lead to it. Weights in a block format are multiplied as integers with activations
//! rounded to 8 bits ([`rounded`]), unless the matrix or the environment says otherwise; then, and
//! in the formats without blocks, rows are dequantised to `f32` ([`exact`]). Both have a form for
//! one token, which reads each weight once, and one for several, which unpacks a panel of rows for
//! all of them. Threads take ranges of rows.

mod exact;
mod rounded;

use std::ops::Range;

use bytemuck::Zeroable;

use crate::KernelError;
use crate::arch::Choice;
use crate::check::Check;
use crate::parallel::{Plan, cut, ranges};
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

impl Input<'_> {
    /// A range of rows of `w`, for all tokens; `y` is one slice of outputs for each.
    fn multiply<const N: usize>(
        &self,
        w: [&Matrix<'_>; N],
        rows: Range<usize>,
        y: &mut [&mut [f32]],
        buffers: &mut Option<exact::Buffers>,
        finish: &impl Fn(usize, [&[f32]; N], &mut [f32]),
    ) {
        let (isa, x, a) = (self.choice.isa, self.x, &self.rounded);
        // The same for any number of tokens, so that a token's result doesn't depend on it.
        let rounds = w.iter().all(|w| taken_by(self.choice, w).is_some());
        match y {
            [y] if rounds => rounded::one_token(isa, w, a, rows, y, finish),
            [y] => exact::one_token(isa, w, x, rows, y, finish),
            _ if rounds => rounded::many_tokens(isa, w, a, rows, y, finish),
            _ => {
                let buffers = buffers.get_or_insert_with(|| exact::Buffers::new(w[0].cols(), N));
                exact::many_tokens(isa, w, x, rows, y, buffers, finish);
            }
        }
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
    round: impl Fn(&[[f32; N]], &mut [B]) + Sync + Send,
) {
    let plan = Plan::new(x.len(), 4 * N);
    let parts = ranges(x.len(), 1, plan.n_parts());
    let outs = cut(out, parts.clone().map(|blocks| blocks.len()));
    plan.run(
        "rounding",
        parts.zip(outs),
        || (),
        |(), (blocks, out)| round(&x[blocks], out),
    );
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
    finish: impl Fn(usize, [&[f32]; N], &mut [f32]) + Sync + Send,
) {
    let finish = |_: usize, row: usize, products: [&[f32]; N], out: &mut [f32]| {
        finish(row, products, out);
    };
    project_all(&[w], input, [y], finish);
}

/// [`project`] for `M` groups of matrices that share their activations, in one parallel region: `y[g]` is
/// group `g`'s, and `finish` is told the group first. All matrices have as many columns.
pub(crate) fn project_all<const N: usize, const M: usize>(
    w: &[[&Matrix<'_>; N]; M],
    input: &Input<'_>,
    y: [&mut [f32]; M],
    finish: impl Fn(usize, usize, [&[f32]; N], &mut [f32]) + Sync + Send,
) {
    let n_tokens = input.n_tokens;
    if n_tokens == 0 {
        return;
    }
    let n_rows = w.each_ref().map(|w| w[0].rows());
    let all_rows: usize = n_rows.iter().sum();
    let flops_per_row = (2 * N * w[0][0].cols()).saturating_mul(n_tokens);
    let plan = Plan::new(all_rows, flops_per_row);
    let mut parts = Vec::new();
    // Part after part, for each token the slice that the part writes.
    let mut columns = Vec::new();
    for (group, y) in y.into_iter().enumerate() {
        // Each as long as it would be if all groups were one matrix.
        let n_parts = (n_rows[group] * plan.n_parts()).div_ceil(all_rows);
        let rows = ranges(n_rows[group], ROW_MULTIPLE, n_parts);
        let first = columns.len();
        columns.resize_with(first + rows.len() * n_tokens, Default::default);
        for (t, y) in y.chunks_exact_mut(n_rows[group]).enumerate() {
            let pieces = cut(y, rows.clone().map(|rows| rows.len()));
            for (part, piece) in pieces.enumerate() {
                columns[first + part * n_tokens + t] = piece;
            }
        }
        parts.extend(rows.map(|rows| (group, rows)));
    }
    plan.run(
        ROWS,
        parts.into_iter().zip(columns.chunks_mut(n_tokens)),
        || None,
        |buffers, ((group, rows), y)| {
            let finish = |row: usize, products: [&[f32]; N], out: &mut [f32]| {
                finish(group, row, products, out);
            };
            input.multiply(w[group], rows, y, buffers, &finish);
        },
    );
}

/// The `finish` of a plain product.
pub(crate) fn store(_row: usize, [products]: [&[f32]; 1], out: &mut [f32]) {
    out.copy_from_slice(products);
}
