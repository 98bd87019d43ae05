//! Integer products with activations that were rounded to 8 bits.

use std::ops::Range;

use crate::arch::{Isa, PANEL_ROWS, Panel};
use crate::quant::{Matrix, Rounded};

/// Rows of one token that are multiplied before they are finished.
const ROWS: usize = 64;

/// Tokens whose products with a panel are kept until they are finished: a multiple of every
/// register tile.
const TOKENS: usize = 96;

/// Strips of sixteen rows that are multiplied with a tile of tokens before its next one: the
/// activations are read from the nearest cache more often, and each token's outputs are written a few
/// lines at a time instead of one (measured at 512 tokens: 2 to 9 % less time). Fewer tokens than a tile
/// have one strip, which the first-level cache holds.
const STRIPS: usize = 8;

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

/// Sixteen rows of each matrix, unpacked, and their products with a few tokens.
struct Strip<const N: usize> {
    panels: [Panel; N],
    products: [Vec<[f32; PANEL_ROWS]>; N],
}

impl<const N: usize> Strip<N> {
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
    let n_strips = if y.len() > TOKENS { STRIPS } else { 1 };
    let n_strips = n_strips.min(rows.len().div_ceil(PANEL_ROWS));
    let mut strips: Vec<_> = (0..n_strips).map(|_| Strip::new(w, y.len())).collect();
    for start in rows.clone().step_by(n_strips * PANEL_ROWS) {
        let of_strips = |strip: usize| {
            let row = start + strip * PANEL_ROWS;
            row..rows.end.min(row + PANEL_ROWS)
        };
        let n_strips = n_strips.min((rows.end - start).div_ceil(PANEL_ROWS));
        let strips = &mut strips[..n_strips];
        for (i, strip) in strips.iter_mut().enumerate() {
            let rows = of_strips(i);
            for (w, panel) in w.iter().zip(&mut strip.panels) {
                isa.pack(w, rows.start, rows.len(), panel);
            }
        }
        for (tile, y) in y.chunks_mut(TOKENS).enumerate() {
            for strip in &mut *strips {
                for (panel, products) in strip.panels.iter().zip(&mut strip.products) {
                    isa.gemm_panel(panel, x, tile * TOKENS, &mut products[..y.len()]);
                }
            }
            for (t, y) in y.iter_mut().enumerate() {
                for (i, strip) in strips.iter().enumerate() {
                    let of_strip = of_strips(i);
                    let products = strip.products.each_ref().map(|p| &p[t][..of_strip.len()]);
                    let y = &mut y[of_strip.start - rows.start..][..of_strip.len()];
                    finish(of_strip.start, products, y);
                }
            }
        }
    }
}
