//! The matrix product behind every projection: `y[t, r] = W[r, :] · x[t, :]`.
//!
//! Rows are dequantised to `f32` and used for all tokens. One token at a time (decode), that
//! happens piece by piece inside the dot product; for several (prefill), a panel of rows is
//! dequantised once and multiplied with tiles of tokens, both of a size that the second-level
//! cache holds. Threads take ranges of rows.

use std::ops::Range;

use brick_runtime::timeline::handover;
use rayon::prelude::*;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::parallel::outputs_per_task;
use crate::quant::Matrix;

/// Rows of one panel at most; also what the stack buffers for one token hold.
const PANEL_ROWS: usize = 64;

/// Elements of a dequantised panel, and of a tile of tokens: 256 KiB each.
const TILE_ELEMS: usize = 64 * 1024;

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

/// `y[t, r] = finish(W_0[r, :] · x[t, :], …)` for `N` matrices of the same shape.
///
/// `finish(r, products, out)` gets, for one token, the products of consecutive rows from `r` on
/// with each matrix, and writes as many outputs. The shapes have been checked.
pub(crate) fn project<const N: usize>(
    w: [&Matrix<'_>; N],
    x: &[f32],
    n_tokens: usize,
    y: &mut [f32],
    finish: impl Fn(usize, [&[f32]; N], &mut [f32]) + Sync,
) {
    if n_tokens == 0 {
        return;
    }
    let (n_rows, k) = (w[0].rows(), w[0].cols());
    let flops_per_row = (2 * N * k).saturating_mul(n_tokens);
    let per_task = outputs_per_task(n_rows, flops_per_row).next_multiple_of(ROW_MULTIPLE);
    let rows_of = |task: usize| task * per_task..n_rows.min((task + 1) * per_task);
    let (isa, work) = (Isa::detect(), handover());
    if n_tokens == 1 {
        let run = |(task, y): (usize, &mut [f32])| one_token(isa, w, x, rows_of(task), y, &finish);
        if per_task >= n_rows {
            run((0, y));
        } else {
            let tasks = y.par_chunks_mut(per_task).enumerate();
            tasks.for_each_init(|| work.task(ROWS), |_task, rows| run(rows));
        }
        return;
    }
    let mut columns = split_columns(y, n_tokens, n_rows, per_task);
    columns.par_chunks_mut(n_tokens).enumerate().for_each_init(
        || (work.task(ROWS), Buffers::new(k, N)),
        |(_task, buffers), (task, y)| {
            many_tokens(isa, w, x, rows_of(task), y, buffers, &finish);
        },
    );
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

/// A range of rows, for one token.
fn one_token<const N: usize>(
    isa: Isa,
    w: [&Matrix<'_>; N],
    x: &[f32],
    rows: Range<usize>,
    y: &mut [f32],
    finish: &impl Fn(usize, [&[f32]; N], &mut [f32]),
) {
    let mut products = [[0.0; PANEL_ROWS]; N];
    for (row, y) in rows.step_by(PANEL_ROWS).zip(y.chunks_mut(PANEL_ROWS)) {
        for (w, products) in w.iter().zip(&mut products) {
            isa.gemv(w, row, x, &mut products[..y.len()]);
        }
        finish(row, products.each_ref().map(|p| &p[..y.len()]), y);
    }
}

/// What one thread needs for [`many_tokens`]: for each matrix a panel of dequantised rows and the
/// products of that panel with a tile of tokens.
struct Buffers {
    panel_rows: usize,
    tile_tokens: usize,
    panels: Vec<f32>,
    products: Vec<f32>,
}

impl Buffers {
    fn new(k: usize, n_matrices: usize) -> Self {
        let panel_rows = (TILE_ELEMS / k).next_multiple_of(4).clamp(4, PANEL_ROWS);
        let tile_tokens = (TILE_ELEMS / k).next_multiple_of(4).clamp(4, 256);
        Self {
            panel_rows,
            tile_tokens,
            panels: vec![0.0; n_matrices * panel_rows * k],
            products: vec![0.0; n_matrices * panel_rows * tile_tokens],
        }
    }
}

/// A range of rows, for all tokens; `y` is one slice of outputs for each token.
fn many_tokens<const N: usize>(
    isa: Isa,
    w: [&Matrix<'_>; N],
    x: &[f32],
    rows: Range<usize>,
    y: &mut [&mut [f32]],
    buffers: &mut Buffers,
    finish: &impl Fn(usize, [&[f32]; N], &mut [f32]),
) {
    let k = w[0].cols();
    let tile_tokens = buffers.tile_tokens;
    let panel_capacity = buffers.panel_rows * k;
    let products_capacity = buffers.panel_rows * tile_tokens;
    for row in rows.clone().step_by(buffers.panel_rows) {
        let n_rows = buffers.panel_rows.min(rows.end - row);
        let first = row - rows.start;
        for (w, panel) in w
            .iter()
            .zip(buffers.panels.chunks_exact_mut(panel_capacity))
        {
            isa.dequantise_rows(w, row, &mut panel[..n_rows * k]);
        }
        for (x, y) in x.chunks(tile_tokens * k).zip(y.chunks_mut(tile_tokens)) {
            let panels = buffers.panels.chunks_exact(panel_capacity);
            let products = buffers.products.chunks_exact_mut(products_capacity);
            for (panel, products) in panels.zip(products) {
                isa.gemm_tile(
                    k,
                    &panel[..n_rows * k],
                    x,
                    &mut products[..n_rows * y.len()],
                );
            }
            for (t, y) in y.iter_mut().enumerate() {
                let products = std::array::from_fn(|m| {
                    &buffers.products[m * products_capacity + t * n_rows..][..n_rows]
                });
                finish(row, products, &mut y[first..first + n_rows]);
            }
        }
    }
}

/// The `finish` of a plain product.
pub(crate) fn store(_row: usize, [products]: [&[f32]; 1], out: &mut [f32]) {
    out.copy_from_slice(products);
}
