//! The loops, for any instruction set: plain Rust that the compiler vectorises.
//!
//! Everything is `inline(always)`, because a function is compiled with an instruction set only if
//! it is inlined into one that names the set.

use crate::quant::{Matrix, dequantise};

/// Partial sums of one dot product: element `i` of the vectors goes to sum `i % LANES`. One
/// 512-bit register, or two of 256 bits; the same for every set so that all agree.
pub(super) const LANES: usize = 16;

/// The partial sums of one dot product.
type Lanes = [f32; LANES];

/// Elements of a row that [`gemv`] dequantises at a time: a multiple of every block and of
/// [`LANES`], and small enough for four rows to stay in the first-level cache.
const SEGMENT: usize = 256;

/// Rows that [`gemv`] takes at a time, so that there are four independent chains of additions.
const GEMV_ROWS: usize = 4;

/// `a * b + c`, in one rounding or in two.
pub(super) trait MulAdd {
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

/// One rounding; fast only where the CPU has the instruction.
#[cfg(target_arch = "x86_64")]
pub(super) struct Fused;

#[cfg(target_arch = "x86_64")]
impl MulAdd for Fused {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

/// Two roundings; fast everywhere.
pub(super) struct Separate;

impl MulAdd for Separate {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

/// Adds the products of `R` rows with `T` vectors, all of one length, to their partial sums.
#[inline(always)]
fn accumulate<M: MulAdd, const R: usize, const T: usize>(
    rows: [&[f32]; R],
    vectors: [&[f32]; T],
    sums: &mut [[Lanes; T]; R],
) {
    let mut local = *sums;
    let n = rows[0].len() / LANES;
    let row_chunks = rows.map(|row| &row.as_chunks::<LANES>().0[..n]);
    let vector_chunks = vectors.map(|vector| &vector.as_chunks::<LANES>().0[..n]);
    for i in 0..n {
        for r in 0..R {
            for t in 0..T {
                for lane in 0..LANES {
                    local[r][t][lane] = M::mul_add(
                        row_chunks[r][i][lane],
                        vector_chunks[t][i][lane],
                        local[r][t][lane],
                    );
                }
            }
        }
    }
    for r in 0..R {
        for t in 0..T {
            let row = rows[r].as_chunks::<LANES>().1;
            let vector = vectors[t].as_chunks::<LANES>().1;
            for (sum, (&a, &b)) in local[r][t].iter_mut().zip(row.iter().zip(vector)) {
                *sum = M::mul_add(a, b, *sum);
            }
        }
    }
    *sums = local;
}

/// The total of the partial sums, by halving: always in this order.
#[inline(always)]
fn total(mut lanes: Lanes) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[inline(always)]
pub(super) fn gemv<M: MulAdd>(w: &Matrix<'_>, first_row: usize, x: &[f32], y: &mut [f32]) {
    let (groups, rest) = y.as_chunks_mut::<GEMV_ROWS>();
    let first_of_rest = first_row + groups.len() * GEMV_ROWS;
    for (i, group) in groups.iter_mut().enumerate() {
        *group = dot_rows::<M, GEMV_ROWS>(w, first_row + i * GEMV_ROWS, x);
    }
    for (i, y) in rest.iter_mut().enumerate() {
        [*y] = dot_rows::<M, 1>(w, first_of_rest + i, x);
    }
}

/// `R` consecutive rows of `w`, times `x`.
#[inline(always)]
fn dot_rows<M: MulAdd, const R: usize>(w: &Matrix<'_>, first_row: usize, x: &[f32]) -> [f32; R] {
    let format = w.format();
    let segment_bytes = SEGMENT / format.block_elems() * format.block_bytes();
    let mut rows: [&[u8]; R] =
        std::array::from_fn(|r| w.rows_bytes(first_row + r..first_row + r + 1));
    let mut weights = [[0.0f32; SEGMENT]; R];
    let mut sums = [[[0.0; LANES]; 1]; R];
    for x in x.chunks(SEGMENT) {
        for (weights, row) in weights.iter_mut().zip(&mut rows) {
            let (segment, rest) = row.split_at(segment_bytes.min(row.len()));
            dequantise(format, segment, &mut weights[..x.len()]);
            *row = rest;
        }
        accumulate::<M, R, 1>(weights.each_ref().map(|w| &w[..x.len()]), [x], &mut sums);
    }
    sums.map(|[lanes]| total(lanes))
}

#[inline(always)]
pub(super) fn dequantise_rows(w: &Matrix<'_>, first_row: usize, out: &mut [f32]) {
    let n_rows = out.len() / w.cols();
    dequantise(w.format(), w.rows_bytes(first_row..first_row + n_rows), out);
}

/// See [`super::Isa::gemm_tile`]; in register tiles of `R` rows by `T` vectors.
#[inline(always)]
pub(super) fn gemm_tile<M: MulAdd, const R: usize, const T: usize>(
    k: usize,
    panel: &[f32],
    x: &[f32],
    out: &mut [f32],
) {
    let n_rows = panel.len() / k.max(1);
    let mut row = 0;
    while row + R <= n_rows {
        tokens::<M, R, T>(k, panel, row, x, out);
        row += R;
    }
    while row < n_rows {
        tokens::<M, 1, T>(k, panel, row, x, out);
        row += 1;
    }
}

/// `R` rows of the panel from `row` on, against all of `x`.
#[inline(always)]
fn tokens<M: MulAdd, const R: usize, const T: usize>(
    k: usize,
    panel: &[f32],
    row: usize,
    x: &[f32],
    out: &mut [f32],
) {
    let n_tokens = x.len() / k;
    let mut token = 0;
    while token + T <= n_tokens {
        register_tile::<M, R, T>(k, panel, row, x, token, out);
        token += T;
    }
    while token < n_tokens {
        register_tile::<M, R, 1>(k, panel, row, x, token, out);
        token += 1;
    }
}

#[inline(always)]
fn register_tile<M: MulAdd, const R: usize, const T: usize>(
    k: usize,
    panel: &[f32],
    row: usize,
    x: &[f32],
    token: usize,
    out: &mut [f32],
) {
    let n_rows = panel.len() / k;
    let rows: [&[f32]; R] = std::array::from_fn(|r| &panel[(row + r) * k..][..k]);
    let vectors: [&[f32]; T] = std::array::from_fn(|t| &x[(token + t) * k..][..k]);
    let mut sums = [[[0.0; LANES]; T]; R];
    accumulate::<M, R, T>(rows, vectors, &mut sums);
    for (r, sums) in sums.into_iter().enumerate() {
        for (t, lanes) in sums.into_iter().enumerate() {
            out[(token + t) * n_rows + row + r] = total(lanes);
        }
    }
}

/// See [`super::Isa::weighted_sum`]. Each stripe of columns stays in registers over all rows.
#[inline(always)]
pub(super) fn weighted_sum<M: MulAdd>(weights: &[f32], rows: &[f32], out: &mut [f32]) {
    const STRIPE: usize = 4 * LANES;
    let cols = out.len();
    let (stripes, rest) = out.as_chunks_mut::<STRIPE>();
    let first_of_rest = stripes.len() * STRIPE;
    for (i, stripe) in stripes.iter_mut().enumerate() {
        let mut sums = *stripe;
        for (&weight, row) in weights.iter().zip(rows.chunks_exact(cols)) {
            let values = &row[i * STRIPE..][..STRIPE];
            for (sum, &value) in sums.iter_mut().zip(values) {
                *sum = M::mul_add(weight, value, *sum);
            }
        }
        *stripe = sums;
    }
    if !rest.is_empty() {
        for (&weight, row) in weights.iter().zip(rows.chunks_exact(cols)) {
            for (sum, &value) in rest.iter_mut().zip(&row[first_of_rest..]) {
                *sum = M::mul_add(weight, value, *sum);
            }
        }
    }
}

/// The loops as they come out for any CPU of the target.
pub(super) mod portable {
    use super::{Matrix, Separate};

    pub(in crate::arch) fn gemv(w: &Matrix<'_>, first_row: usize, x: &[f32], y: &mut [f32]) {
        super::gemv::<Separate>(w, first_row, x, y);
    }

    pub(in crate::arch) fn dequantise_rows(w: &Matrix<'_>, first_row: usize, out: &mut [f32]) {
        super::dequantise_rows(w, first_row, out);
    }

    pub(in crate::arch) fn gemm_tile(k: usize, panel: &[f32], x: &[f32], out: &mut [f32]) {
        super::gemm_tile::<Separate, 2, 1>(k, panel, x, out);
    }

    pub(in crate::arch) fn weighted_sum(weights: &[f32], rows: &[f32], out: &mut [f32]) {
        super::weighted_sum::<Separate>(weights, rows, out);
    }
}
