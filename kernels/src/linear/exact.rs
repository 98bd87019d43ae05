//! Products in `f32`: rows are dequantised piece by piece inside the dot product of one token, or a
//! panel of rows for tiles of tokens, both of a size that the second-level cache holds.

use std::ops::Range;

use crate::arch::Isa;
use crate::quant::Matrix;

/// Rows of one panel at most; also what the stack buffers for one token hold.
const PANEL_ROWS: usize = 64;

/// Elements of a dequantised panel, and of a tile of tokens: 256 KiB each.
const TILE_ELEMS: usize = 64 * 1024;

/// A range of rows, for one token.
pub(super) fn one_token<const N: usize>(
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
pub(super) struct Buffers {
    panel_rows: usize,
    tile_tokens: usize,
    panels: Vec<f32>,
    products: Vec<f32>,
}

impl Buffers {
    pub(super) fn new(k: usize, n_matrices: usize) -> Self {
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
pub(super) fn many_tokens<const N: usize>(
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
