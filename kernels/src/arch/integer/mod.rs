//! Integer dot products with activations that were rounded to 8 bits, for one token.
//!
//! The loops are here, over the operations of an [`Int8`]; what a block format is made of is in
//! [`blocks_32`] and [`blocks_256`], which [`super::panel`] unpacks by as well.
//!
//! A register holds 32 elements of each of `R` rows: one in 256 bits, two in 512. Eight registers
//! of the same block of `8 R` consecutive rows are multiplied by the same activations. Their
//! products are eight registers of partial sums, which three levels of pairwise additions turn into
//! one total a row. Only totals meet a scale, so that there is one conversion, two multiplications
//! and one addition of `f32` for all the rows (measured against one row at a time, as ggml does it:
//! four times as fast from the cache, twice from memory).
//!
//! # What is computed
//! With `q` the codes of a block of weights, `a` those of the activations, `d`, `d_a` their
//! scales, and sums `Σ` of integers, which are exact:
//!
//! | format | added to the result, block after block |
//! |---|---|
//! | Q4_0, Q5_0, Q8_0 | `(d * d_a) * Σ (q - offset) a` |
//! | Q4_1 | the same with offset 0, then `m * (d_a Σ a)` |
//! | Q4_K, Q5_K | `(d * d_a) * Σ scale[s] q a`, then `(dmin * -d_a) * Σ min[s] a` |
//! | Q6_K | `(d * d_a) * Σ scale[s] (q - 32) a` |
//!
//! The terms are multiplied and added in this order, each operation rounded, no fused
//! multiply-add: so every set and [`super::panel`]'s matrix product give the same bits.

use bytemuck::{AnyBitPattern, NoUninit};

use crate::quant::{
    self, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8K, F16,
    Format, Matrix, Rounded, Rounded32,
};

pub(super) mod blocks_256;
pub(super) mod blocks_32;
mod group;

pub(super) use self::group::{Ahead, Group};

/// Registers whose sums are added up together.
pub(super) const REGISTERS: usize = 8;

/// One half of each row, in their order.
pub(super) type Halves<const R: usize> = [[F16; REGISTERS]; R];

/// A block of each row, by the register that it goes to.
pub(super) type Rows<'a, B, const R: usize> = [[&'a B; R]; REGISTERS];

/// Which of `8 R` consecutive rows is number `part` of register `register`: such that
/// [`Int8::totals`] and [`Int8::interleave`] leave the rows in their order.
#[inline(always)]
pub(super) const fn row_of<const R: usize>(register: usize, part: usize) -> usize {
    register % 4 + 4 * part + 4 * R * (register / 4)
}

/// The operations that the loops are made of, on 32 elements of each of `R` rows; `self` is an
/// instruction set's token.
pub(super) trait Int8<const R: usize>: Copy {
    /// 32 bytes of each row, in the order of the elements.
    type Bytes: Copy;
    /// Sixteen `i16` of each row.
    type Shorts: Copy;
    /// Eight `i32` of each row, or one of each of `8 R` rows.
    type Words: Copy;
    /// An `f32` of each of `8 R` rows.
    type Floats: Copy;

    /// What [`dot_signed`](Self::dot_signed) adds to each weight.
    const SIGNED_OFFSET: i32;

    fn splat(self, x: i32) -> Self::Words;
    fn zero_floats(self) -> Self::Floats;
    fn store(self, x: Self::Floats, to: &mut [[f32; 8]; R]);

    fn load(self, x: [&[u8; 32]; R]) -> Self::Bytes;

    /// The low nibbles, then the high ones.
    fn nibbles(self, x: [&[u8; 16]; R]) -> Self::Bytes;

    /// Sets bit 4 of the elements, which are below 16, whose bit is set: bit `i` for element `i`.
    fn or_sixteens(self, x: Self::Bytes, bits: [[u8; 4]; R]) -> Self::Bytes;

    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;

    /// `(x >> BY) & mask` in each byte; `mask` leaves nothing of the neighbour's bits.
    fn shift_right<const BY: i32>(self, x: Self::Bytes, mask: u8) -> Self::Bytes;

    /// `(x << BY) & mask` in each byte; `mask` leaves nothing of the neighbour's bits.
    fn shift_left<const BY: i32>(self, x: Self::Bytes, mask: u8) -> Self::Bytes;

    /// Adds to each row's sums eight that together are `Σ w * a`; `w` is at most 127.
    fn dot(self, sums: Self::Words, w: Self::Bytes, a: &[i8; 32]) -> Self::Words;

    /// The same for `w` of -128..=127, but with [`SIGNED_OFFSET`](Self::SIGNED_OFFSET) added to each.
    fn dot_signed(self, sums: Self::Words, w: Self::Bytes, a: &[i8; 32]) -> Self::Words;

    /// As [`dot`](Self::dot), with the first 16 products times one of the row's scales, the last 16
    /// times another: those at the indices `at`, which are both below 8 or both not. `w` is at most
    /// 63 and the scales are in -128..=127.
    fn dot_scaled(
        self,
        sums: Self::Words,
        w: Self::Bytes,
        a: &[i8; 32],
        scales: Self::Shorts,
        at: [usize; 2],
    ) -> Self::Words;

    /// Eight sums for each row that together are `Σ x * y`.
    fn dot_shorts(self, x: Self::Shorts, y: &[i16; 16]) -> Self::Words;

    /// The eight scales and the eight minima of Q4_K and Q5_K, from the first 16 bytes of the blocks.
    fn six_bits(self, heads: [&[u8; 16]; R]) -> Self::Shorts;

    fn extend(self, x: [&[i8; 16]; R]) -> Self::Shorts;

    /// The total of each row, in the order of [`row_of`].
    fn totals(self, sums: [Self::Words; REGISTERS]) -> Self::Words;

    /// Four bytes after another of each row, in the order of [`row_of`]: the first four of all rows,
    /// then the next.
    fn interleave(self, x: [Self::Bytes; REGISTERS]) -> [Self::Bytes; REGISTERS];

    fn store_bytes(self, x: Self::Bytes, to: &mut [[u8; 32]; R]);

    /// The sixteen numbers of each row, in their order.
    fn bytes_of(self, x: Self::Shorts) -> Self::Bytes;

    fn minus(self, x: Self::Words, y: Self::Words) -> Self::Words;

    fn times_32(self, x: Self::Words) -> Self::Words;

    fn halves(self, x: &Halves<R>) -> Self::Floats;

    /// `sums + (d * d_a) * totals`, unfused.
    fn add_scaled(
        self,
        sums: Self::Floats,
        d: Self::Floats,
        d_a: f32,
        totals: Self::Words,
    ) -> Self::Floats;

    /// Asks for the cache lines of `len` bytes, `offset` after the start of `base`, whether there is
    /// memory or not. Into the second-level cache: the first one's buffers for lines on their way are
    /// fewer, and its hint is up to a tenth slower (measured).
    fn prefetch(self, base: &[u8], offset: usize, len: usize);
}

/// A block format with its dot product.
pub(super) trait Dot: AnyBitPattern + NoUninit {
    /// What the activations have been rounded to.
    type Activations;

    /// Adds the products of the rows' blocks with the activations to the rows' sums.
    fn accumulate<S: Int8<R>, const R: usize>(
        simd: S,
        rows: &Rows<'_, Self, R>,
        ahead: Ahead<'_>,
        a: &Self::Activations,
        sums: S::Floats,
    ) -> S::Floats;
}

/// See [`super::Isa::gemv_rounded`].
#[inline(always)]
pub(super) fn gemv<S: Int8<R>, const R: usize>(
    simd: S,
    w: &Matrix<'_>,
    first_row: usize,
    x: &Rounded,
    token: usize,
    y: &mut [f32],
) {
    let (a32, a256) = (x.blocks_32(token), x.blocks_256(token));
    match w.format() {
        Format::Q4_0 => rows::<S, BlockQ4_0, R>(simd, w, first_row, a32, y),
        Format::Q4_1 => rows::<S, BlockQ4_1, R>(simd, w, first_row, a32, y),
        Format::Q5_0 => rows::<S, BlockQ5_0, R>(simd, w, first_row, a32, y),
        Format::Q8_0 => rows::<S, BlockQ8_0, R>(simd, w, first_row, a32, y),
        Format::Q4K => rows::<S, BlockQ4K, R>(simd, w, first_row, a256, y),
        Format::Q5K => rows::<S, BlockQ5K, R>(simd, w, first_row, a256, y),
        Format::Q6K => rows::<S, BlockQ6K, R>(simd, w, first_row, a256, y),
        Format::F32 | Format::F16 | Format::Bf16 => unreachable!("formats without blocks"),
    }
}

/// Rounds blocks of activations.
#[inline(always)]
pub(super) fn round_32(x: &[[f32; 32]], out: &mut [Rounded32]) {
    for (x, out) in x.iter().zip(out) {
        *out = Rounded32::new(x);
    }
}

/// Rounds blocks of activations.
#[inline(always)]
pub(super) fn round_256(x: &[[f32; 256]], out: &mut [BlockQ8K]) {
    for (x, out) in x.iter().zip(out) {
        quant::round_256(x, out);
    }
}

/// A field of each row's block. (`map` is not compiled with an instruction set: it would call the
/// vector operations instead of inlining them.)
macro_rules! each {
    ($rows:ident, $row:ident => $field:expr) => {{
        let $row = $rows[0];
        let mut fields = [$field; R];
        for i in 1..R {
            let $row = $rows[i];
            fields[i] = $field;
        }
        fields
    }};
}
pub(super) use each;

/// A half of each row's block.
macro_rules! halves {
    ($simd:ident, $rows:ident, $row:ident => $half:expr) => {{
        let mut halves = [[F16::ZERO; REGISTERS]; R];
        for register in 0..REGISTERS {
            for part in 0..R {
                let $row = $rows[register][part];
                let at = row_of::<R>(register, part);
                halves[at / REGISTERS][at % REGISTERS] = $half;
            }
        }
        $simd.halves(&halves)
    }};
}
pub(super) use halves;

#[inline(always)]
fn rows<S: Int8<R>, B: Dot, const R: usize>(
    simd: S,
    w: &Matrix<'_>,
    first_row: usize,
    a: &[B::Activations],
    y: &mut [f32],
) {
    for (i, y) in y.chunks_mut(Group::<R>::ROWS).enumerate() {
        let mut padded = Vec::new();
        let first = first_row + i * Group::<R>::ROWS;
        let group = Group::<R>::new(w, first, y.len(), &mut padded);
        let mut sums = simd.zero_floats();
        for (b, a) in a.iter().enumerate() {
            let ahead = group.ahead::<B>(b);
            sums = B::accumulate(simd, &group.blocks(b), ahead, a, sums);
        }
        let mut of_rows = [[0.0; REGISTERS]; R];
        simd.store(sums, &mut of_rows);
        y.copy_from_slice(&of_rows.as_flattened()[..y.len()]);
    }
}
