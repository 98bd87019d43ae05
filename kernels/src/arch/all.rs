//! The loops, for any instruction set: plain Rust that the compiler vectorises.
//!
//! Everything is `inline(always)`, because a function is compiled with an instruction set only if
//! it is inlined into one that names the set.

use crate::activation::{Activation, gelu_tanh, silu};
use crate::exp::exp;
use crate::quant::{F16, Matrix, dequantise};

/// Partial sums of one dot product: element `i` of the vectors goes to sum `i % LANES`. One
/// 512-bit register, or two of 256 bits; the same for every set so that all agree.
pub(super) const LANES: usize = 16;

/// The few vector operations that the loops are made of; `self` is an instruction set's token.
///
/// Left to itself the compiler turns register tiles into shuffles (measured: a tenth of the
/// speed), so these are spelt in intrinsics. What is not a tile is left to the vectoriser.
pub(super) trait Simd: Copy {
    /// [`LANES`] numbers.
    type Vector: Copy;

    fn splat(self, x: f32) -> Self::Vector;

    fn load(self, x: &[f32; LANES]) -> Self::Vector;

    fn store(self, x: Self::Vector, to: &mut [f32; LANES]);

    /// `a * b + c`: in one rounding where the set can, else in two.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;

    /// The sum of all lanes, by halving: lanes `i` and `i + 8` first, then `i` and `i + 4`, and so
    /// on.
    fn total(self, x: Self::Vector) -> f32;

    /// Halves, as numbers.
    fn widen(self, x: &[u16; LANES]) -> Self::Vector;

    /// The end of a vector, filled up with zeros.
    #[inline(always)]
    fn load_tail(self, tail: &[f32]) -> Self::Vector {
        let mut lanes = [0.0; LANES];
        lanes[..tail.len()].copy_from_slice(tail);
        self.load(&lanes)
    }
}

/// Elements of a row that [`gemv`] dequantises at a time: a multiple of every block and of
/// [`LANES`], and small enough for four rows to stay in the first-level cache.
const SEGMENT: usize = 256;

/// Rows that [`gemv`] takes at a time, so that there are four independent chains of additions.
const GEMV_ROWS: usize = 4;

/// Adds the products of `R` rows with `T` vectors, all of one length, to their partial sums.
#[inline(always)]
fn accumulate<S: Simd, const R: usize, const T: usize>(
    simd: S,
    rows: [&[f32]; R],
    vectors: [&[f32]; T],
    mut sums: [[S::Vector; T]; R],
) -> [[S::Vector; T]; R] {
    let len = rows[0].len();
    let n = len / LANES;
    let mut row_chunks: [&[[f32; LANES]]; R] = [&[]; R];
    let mut vector_chunks: [&[[f32; LANES]]; T] = [&[]; T];
    for r in 0..R {
        row_chunks[r] = &rows[r].as_chunks().0[..n];
    }
    for t in 0..T {
        vector_chunks[t] = &vectors[t].as_chunks().0[..n];
    }
    let mut a = [simd.splat(0.0); R];
    for i in 0..n {
        for r in 0..R {
            a[r] = simd.load(&row_chunks[r][i]);
        }
        for t in 0..T {
            let b = simd.load(&vector_chunks[t][i]);
            for r in 0..R {
                sums[r][t] = simd.mul_add(a[r], b, sums[r][t]);
            }
        }
    }
    let tail = n * LANES;
    if tail < len {
        for r in 0..R {
            a[r] = simd.load_tail(&rows[r][tail..]);
        }
        for t in 0..T {
            let b = simd.load_tail(&vectors[t][tail..]);
            for r in 0..R {
                sums[r][t] = simd.mul_add(a[r], b, sums[r][t]);
            }
        }
    }
    sums
}

#[inline(always)]
pub(super) fn gemv<S: Simd>(simd: S, w: &Matrix<'_>, first_row: usize, x: &[f32], y: &mut [f32]) {
    let (groups, rest) = y.as_chunks_mut::<GEMV_ROWS>();
    let first_of_rest = first_row + groups.len() * GEMV_ROWS;
    for (i, group) in groups.iter_mut().enumerate() {
        *group = dot_rows::<S, GEMV_ROWS>(simd, w, first_row + i * GEMV_ROWS, x);
    }
    for (i, y) in rest.iter_mut().enumerate() {
        [*y] = dot_rows::<S, 1>(simd, w, first_of_rest + i, x);
    }
}

/// `R` consecutive rows of `w`, times `x`.
#[inline(always)]
fn dot_rows<S: Simd, const R: usize>(
    simd: S,
    w: &Matrix<'_>,
    first_row: usize,
    x: &[f32],
) -> [f32; R] {
    let format = w.format();
    let segment_bytes = SEGMENT / format.block_elems() * format.block_bytes();
    let mut bytes = [&[][..]; R];
    for (bytes, row) in bytes.iter_mut().zip(first_row..) {
        *bytes = w.rows_bytes(row..row + 1);
    }
    let mut weights = [[0.0f32; SEGMENT]; R];
    let mut sums = [[simd.splat(0.0)]; R];
    for x in x.chunks(SEGMENT) {
        for (weights, bytes) in weights.iter_mut().zip(&mut bytes) {
            let (segment, rest) = bytes.split_at(segment_bytes.min(bytes.len()));
            dequantise(format, segment, &mut weights[..x.len()]);
            *bytes = rest;
        }
        let mut rows = [&[][..]; R];
        for r in 0..R {
            rows[r] = &weights[r][..x.len()];
        }
        sums = accumulate::<S, R, 1>(simd, rows, [x], sums);
    }
    let mut out = [0.0; R];
    for r in 0..R {
        out[r] = simd.total(sums[r][0]);
    }
    out
}

#[inline(always)]
pub(super) fn dequantise_rows(w: &Matrix<'_>, first_row: usize, out: &mut [f32]) {
    let n_rows = out.len() / w.cols();
    dequantise(w.format(), w.rows_bytes(first_row..first_row + n_rows), out);
}

/// See [`super::Isa::gemm_tile`]; in register tiles of `R` rows by `T` vectors.
#[inline(always)]
pub(super) fn gemm_tile<S: Simd, const R: usize, const T: usize>(
    simd: S,
    k: usize,
    panel: &[f32],
    x: &[f32],
    out: &mut [f32],
) {
    let n_rows = panel.len() / k.max(1);
    let mut row = 0;
    while row + R <= n_rows {
        tokens::<S, R, T>(simd, k, panel, row, x, out);
        row += R;
    }
    while row < n_rows {
        tokens::<S, 1, T>(simd, k, panel, row, x, out);
        row += 1;
    }
}

/// `R` rows of the panel from `row` on, against all of `x`.
#[inline(always)]
fn tokens<S: Simd, const R: usize, const T: usize>(
    simd: S,
    k: usize,
    panel: &[f32],
    row: usize,
    x: &[f32],
    out: &mut [f32],
) {
    let n_tokens = x.len() / k;
    let mut token = 0;
    while token + T <= n_tokens {
        register_tile::<S, R, T>(simd, k, panel, row, x, token, out);
        token += T;
    }
    while token < n_tokens {
        register_tile::<S, R, 1>(simd, k, panel, row, x, token, out);
        token += 1;
    }
}

#[inline(always)]
fn register_tile<S: Simd, const R: usize, const T: usize>(
    simd: S,
    k: usize,
    panel: &[f32],
    row: usize,
    x: &[f32],
    token: usize,
    out: &mut [f32],
) {
    let n_rows = panel.len() / k;
    let mut rows = [&[][..]; R];
    for r in 0..R {
        rows[r] = &panel[(row + r) * k..][..k];
    }
    let mut vectors = [&[][..]; T];
    for t in 0..T {
        vectors[t] = &x[(token + t) * k..][..k];
    }
    let sums = accumulate::<S, R, T>(simd, rows, vectors, [[simd.splat(0.0); T]; R]);
    for t in 0..T {
        let out = &mut out[(token + t) * n_rows + row..][..R];
        for r in 0..R {
            out[r] = simd.total(sums[r][t]);
        }
    }
}

/// See [`super::Isa::weighted_sums`]; in register tiles of `R` rows of outputs by `T` vectors of
/// columns, which stay in registers over all rows that are added.
#[inline(always)]
pub(super) fn weighted_sums<S: Simd, const R: usize, const T: usize>(
    simd: S,
    weights: &[f32],
    stride: usize,
    rows: &[f32],
    cols: usize,
    out: &mut [f32],
) {
    let n_out = out.len() / cols;
    let mut first = 0;
    while first + R <= n_out {
        let (weights, out) = (&weights[first * stride..], &mut out[first * cols..]);
        sum_columns::<S, R, T>(simd, weights, stride, rows, cols, out);
        first += R;
    }
    while first < n_out {
        let (weights, out) = (&weights[first * stride..], &mut out[first * cols..]);
        sum_columns::<S, 1, T>(simd, weights, stride, rows, cols, out);
        first += 1;
    }
}

/// All columns of the first `R` rows of `out`.
#[inline(always)]
fn sum_columns<S: Simd, const R: usize, const T: usize>(
    simd: S,
    weights: &[f32],
    stride: usize,
    rows: &[f32],
    cols: usize,
    out: &mut [f32],
) {
    let n = rows.len() / cols;
    let mut weights_of = [&[][..]; R];
    for r in 0..R {
        weights_of[r] = &weights[r * stride..][..n];
    }
    let mut first = 0;
    while first + T * LANES <= cols {
        sum_stripe::<S, R, T>(simd, weights_of, rows, cols, first, out);
        first += T * LANES;
    }
    while first + LANES <= cols {
        sum_stripe::<S, R, 1>(simd, weights_of, rows, cols, first, out);
        first += LANES;
    }
    if first < cols {
        for r in 0..R {
            let tail = &mut out[r * cols + first..(r + 1) * cols];
            let mut sums = simd.load_tail(tail);
            for (&weight, row) in weights_of[r].iter().zip(rows.chunks_exact(cols)) {
                sums = simd.mul_add(simd.splat(weight), simd.load_tail(&row[first..]), sums);
            }
            let mut lanes = [0.0; LANES];
            simd.store(sums, &mut lanes);
            tail.copy_from_slice(&lanes[..cols - first]);
        }
    }
}

/// `T * LANES` columns from `first` on, of `R` rows.
#[inline(always)]
fn sum_stripe<S: Simd, const R: usize, const T: usize>(
    simd: S,
    weights: [&[f32]; R],
    rows: &[f32],
    cols: usize,
    first: usize,
    out: &mut [f32],
) {
    let n = rows.len() / cols;
    let mut sums = [[simd.splat(0.0); T]; R];
    for r in 0..R {
        let out = &out[r * cols + first..][..T * LANES].as_chunks::<LANES>().0[..T];
        for t in 0..T {
            sums[r][t] = simd.load(&out[t]);
        }
    }
    let mut values = [simd.splat(0.0); T];
    for i in 0..n {
        let row = &rows[i * cols + first..][..T * LANES].as_chunks::<LANES>().0[..T];
        for t in 0..T {
            values[t] = simd.load(&row[t]);
        }
        for r in 0..R {
            let weight = simd.splat(weights[r][i]);
            for t in 0..T {
                sums[r][t] = simd.mul_add(weight, values[t], sums[r][t]);
            }
        }
    }
    for r in 0..R {
        let out = &mut out[r * cols + first..][..T * LANES]
            .as_chunks_mut::<LANES>()
            .0[..T];
        for t in 0..T {
            simd.store(sums[r][t], &mut out[t]);
        }
    }
}

/// See [`super::Isa::exponentials`].
#[inline(always)]
pub(super) fn exponentials(scores: &mut [f32], scale: f32, max: f32) -> (f32, f32) {
    let mut maxima = [max; LANES];
    let (chunks, tail) = scores.as_chunks_mut::<LANES>();
    // Comparisons that NaN does not win.
    for chunk in chunks.iter_mut() {
        for (x, max) in chunk.iter_mut().zip(&mut maxima) {
            *x *= scale;
            *max = if *x > *max { *x } else { *max };
        }
    }
    for (x, max) in tail.iter_mut().zip(&mut maxima) {
        *x *= scale;
        *max = if *x > *max { *x } else { *max };
    }
    let max = maxima.iter().copied().fold(max, f32::max);
    let mut sums = [0.0; LANES];
    for chunk in chunks {
        for (x, sum) in chunk.iter_mut().zip(&mut sums) {
            *x = exp(*x - max);
            *sum += *x;
        }
    }
    for (x, sum) in tail.iter_mut().zip(&mut sums) {
        *x = exp(*x - max);
        *sum += *x;
    }
    (max, sums.iter().sum())
}

/// See [`super::Isa::widen`].
#[inline(always)]
pub(super) fn widen<S: Simd>(simd: S, halves: &[u16], out: &mut [f32]) {
    let (chunks, tail) = out.as_chunks_mut::<LANES>();
    let (halves, last) = halves.as_chunks::<LANES>();
    for (out, halves) in chunks.iter_mut().zip(halves) {
        simd.store(simd.widen(halves), out);
    }
    for (out, half) in tail.iter_mut().zip(last) {
        *out = F16::from_le_bytes(half.to_le_bytes()).to_f32();
    }
}

/// See [`super::Isa::gate`].
#[inline(always)]
pub(super) fn gate(activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
    // The choice is made outside the loop.
    match activation {
        Activation::GeluTanh => gate_with(gelu_tanh, gate, up, out),
        Activation::Silu => gate_with(silu, gate, up, out),
    }
}

#[inline(always)]
fn gate_with(activation: impl Fn(f32) -> f32, gate: &[f32], up: &[f32], out: &mut [f32]) {
    for (out, (&gate, &up)) in out.iter_mut().zip(gate.iter().zip(up)) {
        *out = activation(gate) * up;
    }
}
