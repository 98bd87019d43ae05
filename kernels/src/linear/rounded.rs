//! Integer products with activations that were rounded to 8 bits.

use std::ops::Range;

use crate::arch::{Isa, PANEL_ROWS, Panel};
use crate::quant::{Matrix, Rounded};

/// Rows of one token that are multiplied before they are finished.
const ROWS: usize = 64;

/// Tokens whose products with a panel are kept until they are finished: a multiple of every
/// register tile.
const TOKENS: usize = 96;

/// A range of rows, for one token.
pub(super) fn one_token<const N: usize>(
    isa: Isa,
    w: [&Matrix<'_>; N],
    x: &Rounded,
    rows: Range<usize>,
    y: &mut [f32],
    finish: &impl Fn(usize, [&[f32]; N], &mut [f32]),
) {
    let mut products = [[0.0; ROWS]; N];
    for (row, y) in rows.step_by(ROWS).zip(y.chunks_mut(ROWS)) {
        for (w, products) in w.iter().zip(&mut products) {
            isa.gemv_rounded(w, row, x, 0, &mut products[..y.len()]);
        }
        finish(row, products.each_ref().map(|p| &p[..y.len()]), y);
    }
}

/// What [`many_tokens`] needs: for each matrix an unpacked panel and its products.
struct Buffers<const N: usize> {
    panels: [Panel; N],
    products: [Vec<[f32; PANEL_ROWS]>; N],
}

impl<const N: usize> Buffers<N> {
    fn new(w: [&Matrix<'_>; N], n_tokens: usize) -> Self {
        Self {
            panels: w.map(Panel::new),
            products: w.map(|_| vec![[0.0; PANEL_ROWS]; n_tokens.min(TOKENS)]),
        }
    }
}

/// A range of rows, for all tokens; `y` is one slice of outputs for each token.
pub(super) fn many_tokens<const N: usize>(
    isa: Isa,
    w: [&Matrix<'_>; N],
    x: &Rounded,
    rows: Range<usize>,
    y: &mut [&mut [f32]],
    finish: &impl Fn(usize, [&[f32]; N], &mut [f32]),
) {
    let mut buffers = Buffers::new(w, y.len());
    for row in rows.clone().step_by(PANEL_ROWS) {
        let n_rows = PANEL_ROWS.min(rows.end - row);
        let first = row - rows.start;
        for (w, panel) in w.iter().zip(&mut buffers.panels) {
            isa.pack(w, row, n_rows, panel);
        }
        for (tile, y) in y.chunks_mut(TOKENS).enumerate() {
            for (panel, products) in buffers.panels.iter().zip(&mut buffers.products) {
                isa.gemm_panel(panel, x, tile * TOKENS, &mut products[..y.len()]);
            }
            for (t, y) in y.iter_mut().enumerate() {
                let products = buffers.products.each_ref().map(|p| &p[t][..n_rows]);
                finish(row, products, &mut y[first..first + n_rows]);
            }
        }
    }
}
