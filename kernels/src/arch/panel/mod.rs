//! Integer dot products with activations that were rounded to 8 bits, for many tokens.
//!
//! [`pack`] unpacks sixteen rows of weights and interleaves them, four elements of each row at a
//! time: then one instruction multiplies four elements of a token with those of all sixteen rows,
//! and a register of sums is sixteen outputs. A packed panel is used for all tokens, a few of which
//! stay in registers together ([`gemm`]). What is computed, and in which order, is said in
//! [`super::integer`].

use bytemuck::Zeroable;

use crate::quant::{BlockQ8K, Format, Matrix, Rounded, Rounded32};

mod pack;

pub(super) use self::pack::pack;

/// Rows of a panel.
pub(crate) const PANEL_ROWS: usize = 16;

/// One block of each of the rows of a panel, for the formats with 32 elements a block.
#[derive(Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Panel32 {
    /// Elements `4 j ..= 4 j + 3` of row `r` are at `[j][4 r ..= 4 r + 3]`.
    codes: [[u8; 64]; 8],
    d: [f32; PANEL_ROWS],
    /// Minima; of Q4_1 only.
    m: [f32; PANEL_ROWS],
}

/// One block of each of the rows of a panel, for the formats with 256 elements a block.
#[derive(Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Panel256 {
    /// As in [`Panel32`].
    codes: [[u8; 64]; 64],
    /// For each sub-block; Q4_K and Q5_K have eight.
    scales: [[i32; PANEL_ROWS]; 16],
    /// The minima of sub-blocks `2 i` and `2 i + 1` of row `r` are at `[i][2 r ..= 2 r + 1]`; of Q4_K
    /// and Q5_K only.
    mins: [[i16; 2 * PANEL_ROWS]; 4],
    d: [f32; PANEL_ROWS],
    dmin: [f32; PANEL_ROWS],
}

/// Sixteen rows of a matrix, unpacked and interleaved.
pub(crate) struct Panel {
    format: Format,
    blocks_32: Vec<Panel32>,
    blocks_256: Vec<Panel256>,
}

impl Panel {
    /// Room for rows of `w`, whose format is one with blocks.
    pub(crate) fn new(w: &Matrix<'_>) -> Self {
        let blocks = w.cols() / w.format().block_elems();
        let (n_32, n_256) = match w.format().block_elems() {
            32 => (blocks, 0),
            _ => (0, blocks),
        };
        Self {
            format: w.format(),
            blocks_32: vec![Zeroable::zeroed(); n_32],
            blocks_256: vec![Zeroable::zeroed(); n_256],
        }
    }
}

/// The operations that the loops are made of, on sixteen rows; `self` is an instruction set's token.
pub(super) trait Rows16: Copy {
    /// Four bytes of each row.
    type Bytes: Copy;
    /// An `i32` of each row.
    type Words: Copy;
    /// An `f32` of each row.
    type Floats: Copy;

    /// What [`dot_signed`](Self::dot_signed) adds to each weight.
    const SIGNED_OFFSET: i32;

    fn zero_floats(self) -> Self::Floats;
    fn splat(self, x: i32) -> Self::Words;
    fn load(self, x: &[u8; 64]) -> Self::Bytes;
    fn store(self, x: Self::Floats, to: &mut [f32; PANEL_ROWS]);

    /// Adds to each row's sum its four products with `a`; the weights are at most 127.
    fn dot(self, sums: Self::Words, w: Self::Bytes, a: [i8; 4]) -> Self::Words;

    /// The same for weights of -128..=127, but with [`SIGNED_OFFSET`](Self::SIGNED_OFFSET) added to
    /// each.
    fn dot_signed(self, sums: Self::Words, w: Self::Bytes, a: [i8; 4]) -> Self::Words;

    /// Adds to each row's sum its two products with `a`.
    fn dot_pairs(self, sums: Self::Words, w: &[i16; 32], a: [i16; 2]) -> Self::Words;

    /// `sums + x * y`.
    fn add_product(self, sums: Self::Words, x: Self::Words, y: &[i32; PANEL_ROWS]) -> Self::Words;

    /// `sums + (d * d_a) * totals`, unfused.
    fn add_scaled(
        self,
        sums: Self::Floats,
        d: &[f32; PANEL_ROWS],
        d_a: f32,
        totals: Self::Words,
    ) -> Self::Floats;
}

/// See [`super::Isa::gemm_panel`]; in register tiles of sixteen rows by `T` tokens, or `T256` for the
/// formats with 256 elements a block, whose sub-blocks need more registers.
#[inline(always)]
pub(super) fn gemm<S: Rows16, const T: usize, const T256: usize>(
    simd: S,
    panel: &Panel,
    x: &Rounded,
    first_token: usize,
    out: &mut [[f32; PANEL_ROWS]],
) {
    match panel.format {
        Format::Q4_0 => tokens_32::<S, T, false, false>(simd, panel, 8, x, first_token, out),
        Format::Q4_1 => tokens_32::<S, T, false, true>(simd, panel, 0, x, first_token, out),
        Format::Q5_0 => tokens_32::<S, T, false, false>(simd, panel, 16, x, first_token, out),
        Format::Q8_0 => {
            let offset = S::SIGNED_OFFSET;
            tokens_32::<S, T, true, false>(simd, panel, offset, x, first_token, out);
        }
        Format::Q4K | Format::Q5K => {
            tokens_256::<S, T256, 32, true>(simd, panel, x, first_token, out);
        }
        Format::Q6K => tokens_256::<S, T256, 16, false>(simd, panel, x, first_token, out),
        Format::F32 | Format::F16 | Format::Bf16 => unreachable!("formats without blocks"),
    }
}

#[inline(always)]
fn tokens_32<S: Rows16, const T: usize, const SIGNED: bool, const MINS: bool>(
    simd: S,
    panel: &Panel,
    offset: i32,
    x: &Rounded,
    first_token: usize,
    out: &mut [[f32; PANEL_ROWS]],
) {
    let blocks = &panel.blocks_32[..];
    let (tiles, rest) = out.as_chunks_mut::<T>();
    let first_of_rest = first_token + T * tiles.len();
    for (i, out) in tiles.iter_mut().enumerate() {
        let token = first_token + T * i;
        tile_32::<S, T, SIGNED, MINS>(simd, blocks, offset, x, token, out);
    }
    for (i, out) in rest.as_chunks_mut::<1>().0.iter_mut().enumerate() {
        tile_32::<S, 1, SIGNED, MINS>(simd, blocks, offset, x, first_of_rest + i, out);
    }
}

#[inline(always)]
fn tile_32<S: Rows16, const T: usize, const SIGNED: bool, const MINS: bool>(
    simd: S,
    panel: &[Panel32],
    offset: i32,
    x: &Rounded,
    token: usize,
    out: &mut [[f32; PANEL_ROWS]; T],
) {
    let mut a: [&[Rounded32]; T] = [&[]; T];
    for (t, a) in a.iter_mut().enumerate() {
        *a = &x.blocks_32(token + t)[..panel.len()];
    }
    let mut sums = [simd.zero_floats(); T];
    for (b, panel) in panel.iter().enumerate() {
        let mut dots = [simd.splat(0); T];
        for t in 0..T {
            dots[t] = simd.splat(-offset * a[t][b].sum);
        }
        for j in 0..8 {
            let w = simd.load(&panel.codes[j]);
            for t in 0..T {
                let four = a[t][b].qs.as_chunks().0[j];
                dots[t] = if SIGNED {
                    simd.dot_signed(dots[t], w, four)
                } else {
                    simd.dot(dots[t], w, four)
                };
            }
        }
        for t in 0..T {
            sums[t] = simd.add_scaled(sums[t], &panel.d, a[t][b].d, dots[t]);
            if MINS {
                // `(m * s) * 1` is `m * s`.
                sums[t] = simd.add_scaled(sums[t], &panel.m, a[t][b].s, simd.splat(1));
            }
        }
    }
    for t in 0..T {
        simd.store(sums[t], &mut out[t]);
    }
}

#[inline(always)]
fn tokens_256<S: Rows16, const T: usize, const SUB: usize, const MINS: bool>(
    simd: S,
    panel: &Panel,
    x: &Rounded,
    first_token: usize,
    out: &mut [[f32; PANEL_ROWS]],
) {
    let blocks = &panel.blocks_256[..];
    let (tiles, rest) = out.as_chunks_mut::<T>();
    let first_of_rest = first_token + T * tiles.len();
    for (i, out) in tiles.iter_mut().enumerate() {
        tile_256::<S, T, SUB, MINS>(simd, blocks, x, first_token + T * i, out);
    }
    for (i, out) in rest.as_chunks_mut::<1>().0.iter_mut().enumerate() {
        tile_256::<S, 1, SUB, MINS>(simd, blocks, x, first_of_rest + i, out);
    }
}

/// `SUB` elements have a scale of their own; without minima the codes have an offset of 32.
#[inline(always)]
fn tile_256<S: Rows16, const T: usize, const SUB: usize, const MINS: bool>(
    simd: S,
    panel: &[Panel256],
    x: &Rounded,
    token: usize,
    out: &mut [[f32; PANEL_ROWS]; T],
) {
    let mut a: [&[BlockQ8K]; T] = [&[]; T];
    for (t, a) in a.iter_mut().enumerate() {
        *a = &x.blocks_256(token + t)[..panel.len()];
    }
    let mut sums = [simd.zero_floats(); T];
    for (b, panel) in panel.iter().enumerate() {
        let mut totals = [simd.splat(0); T];
        for s in 0..256 / SUB {
            let mut dots = [simd.splat(0); T];
            if !MINS {
                for t in 0..T {
                    dots[t] = simd.splat(-32 * i32::from(a[t][b].bsums[s]));
                }
            }
            for j in s * SUB / 4..(s + 1) * SUB / 4 {
                let w = simd.load(&panel.codes[j]);
                for t in 0..T {
                    dots[t] = simd.dot(dots[t], w, a[t][b].qs.as_chunks().0[j]);
                }
            }
            for t in 0..T {
                totals[t] = simd.add_product(totals[t], dots[t], &panel.scales[s]);
            }
        }
        for t in 0..T {
            sums[t] = simd.add_scaled(sums[t], &panel.d, a[t][b].d, totals[t]);
            if MINS {
                let mut of_mins = simd.splat(0);
                for (mins, four) in panel.mins.iter().zip(a[t][b].bsums.as_chunks::<4>().0) {
                    let pair = [four[0] + four[1], four[2] + four[3]];
                    of_mins = simd.dot_pairs(of_mins, mins, pair);
                }
                sums[t] = simd.add_scaled(sums[t], &panel.dmin, -a[t][b].d, of_mins);
            }
        }
    }
    for t in 0..T {
        simd.store(sums[t], &mut out[t]);
    }
}
