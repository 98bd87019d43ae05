//! Integer dot products with activations that were rounded to 8 bits, for one token.
//!
//! Eight rows at a time: the dot products of one block of each are eight registers of partial
//! sums, which three levels of pairwise additions turn into one register of eight totals. Only
//! totals meet a scale, so that there is one conversion, two multiplications and one addition of
//! `f32` for eight blocks (measured against one row at a time, as ggml does it: four times as fast
//! from the cache, twice from memory).
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

use crate::quant::{
    self, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5K, BlockQ6K, BlockQ8_0, BlockQ8K, F16,
    Format, Matrix, Rounded, Rounded32, scales_and_mins,
};

/// Rows that are multiplied together.
pub(super) const ROWS: usize = 8;

/// How far ahead of the rows at work memory is asked for: the next but one group (measured from
/// memory: half the time of none; one group ahead lies between).
const PREFETCH_ROWS: usize = 2 * ROWS;

/// The operations that the loops are made of, on 32 bytes; `self` is an instruction set's token.
pub(super) trait Int8: Copy {
    /// 32 bytes, in the order of the elements.
    type Bytes: Copy;
    /// Eight `i32`.
    type Words: Copy;
    /// Eight `f32`.
    type Floats: Copy;

    /// What [`dot_signed`](Self::dot_signed) adds to each weight.
    const SIGNED_OFFSET: i32;

    fn zero_words(self) -> Self::Words;
    fn zero_floats(self) -> Self::Floats;
    fn words(self, x: &[i32; 8]) -> Self::Words;
    fn store(self, x: Self::Floats, to: &mut [f32; 8]);

    fn load(self, x: &[u8; 32]) -> Self::Bytes;

    /// The low nibbles, then the high ones.
    fn nibbles(self, x: &[u8; 16]) -> Self::Bytes;

    /// Sets bit 4 of the elements, which are below 16, whose bit is set: bit `i` for element `i`.
    fn or_sixteens(self, x: Self::Bytes, bits: [u8; 4]) -> Self::Bytes;

    fn or(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes;

    /// `(x >> BY) & mask` in each byte.
    fn shift_right<const BY: i32>(self, x: Self::Bytes, mask: u8) -> Self::Bytes;

    /// `x << 4` in each byte, of bytes below 16.
    fn shift_left_4(self, x: Self::Bytes) -> Self::Bytes;

    /// Adds to `sums` eight sums that together are `Σ w * a`; `w` is at most 127.
    fn dot(self, sums: Self::Words, w: Self::Bytes, a: &[i8; 32]) -> Self::Words;

    /// The same for `w` of -128..=127, but with [`SIGNED_OFFSET`](Self::SIGNED_OFFSET) added to each.
    fn dot_signed(self, sums: Self::Words, w: Self::Bytes, a: &[i8; 32]) -> Self::Words;

    /// As [`dot`](Self::dot), with the first 16 products times one scale and the last 16 times
    /// another; `w` is at most 63 and the scales are in -128..=127.
    fn dot_scaled(
        self,
        sums: Self::Words,
        w: Self::Bytes,
        a: &[i8; 32],
        scales: [i16; 2],
    ) -> Self::Words;

    /// The total of each.
    fn totals(self, sums: [Self::Words; ROWS]) -> Self::Words;

    fn minus(self, x: Self::Words, y: Self::Words) -> Self::Words;

    fn halves(self, x: [F16; 8]) -> Self::Floats;

    /// `sums + (d * d_a) * totals`, unfused.
    fn add_scaled(
        self,
        sums: Self::Floats,
        d: Self::Floats,
        d_a: f32,
        totals: Self::Words,
    ) -> Self::Floats;

    /// Asks for the cache lines of `len` bytes, `offset` after the start of `base`, whether there is
    /// memory or not.
    fn prefetch(self, base: &[u8], offset: usize, len: usize);
}

/// A block format with its dot product.
trait Dot: bytemuck::AnyBitPattern + bytemuck::NoUninit {
    /// What the activations have been rounded to.
    type Activations;

    /// Adds the products of the blocks of eight rows with the activations to the rows' sums.
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &Self::Activations,
        sums: S::Floats,
    ) -> S::Floats;
}

/// See [`super::Isa::gemv_rounded`].
#[inline(always)]
pub(super) fn gemv<S: Int8>(
    simd: S,
    w: &Matrix<'_>,
    first_row: usize,
    x: &Rounded,
    token: usize,
    y: &mut [f32],
) {
    let (a32, a256) = (x.blocks_32(token), x.blocks_256(token));
    match w.format() {
        Format::Q4_0 => rows::<S, BlockQ4_0>(simd, w, first_row, a32, y),
        Format::Q4_1 => rows::<S, BlockQ4_1>(simd, w, first_row, a32, y),
        Format::Q5_0 => rows::<S, BlockQ5_0>(simd, w, first_row, a32, y),
        Format::Q8_0 => rows::<S, BlockQ8_0>(simd, w, first_row, a32, y),
        Format::Q4K => rows::<S, BlockQ4K>(simd, w, first_row, a256, y),
        Format::Q5K => rows::<S, BlockQ5K>(simd, w, first_row, a256, y),
        Format::Q6K => rows::<S, BlockQ6K>(simd, w, first_row, a256, y),
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

#[inline(always)]
fn rows<S: Int8, B: Dot>(
    simd: S,
    w: &Matrix<'_>,
    first_row: usize,
    a: &[B::Activations],
    y: &mut [f32],
) {
    let last = first_row + y.len() - 1;
    let row_bytes = size_of::<B>() * a.len();
    for (group, y) in y.chunks_mut(ROWS).enumerate() {
        let mut blocks: [&[B]; ROWS] = [&[]; ROWS];
        let bytes = w.rows_bytes(first_row + group * ROWS..last + 1);
        for (r, blocks) in blocks.iter_mut().enumerate() {
            // Past the end the last row again; what comes of it is left out.
            let row = (first_row + group * ROWS + r).min(last);
            *blocks = &bytemuck::cast_slice(w.rows_bytes(row..row + 1))[..a.len()];
        }
        let mut sums = simd.zero_floats();
        for (b, a) in a.iter().enumerate() {
            let mut of_rows = [&blocks[0][b]; ROWS];
            for r in 0..ROWS {
                of_rows[r] = &blocks[r][b];
            }
            // The rows of a group lie one after the other: as many bytes as are read here, in order.
            let step = ROWS * size_of::<B>();
            simd.prefetch(bytes, PREFETCH_ROWS * row_bytes + b * step, step);
            sums = B::accumulate(simd, of_rows, a, sums);
        }
        let mut eight = [0.0; ROWS];
        simd.store(sums, &mut eight);
        y.copy_from_slice(&eight[..y.len()]);
    }
}

/// `d` of each row.
macro_rules! scales {
    ($simd:ident, $rows:ident, $field:ident) => {{
        let mut halves = [$rows[0].$field; ROWS];
        for r in 0..ROWS {
            halves[r] = $rows[r].$field;
        }
        $simd.halves(halves)
    }};
}

impl Dot for BlockQ4_0 {
    type Activations = Rounded32;

    #[inline(always)]
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &Rounded32,
        sums: S::Floats,
    ) -> S::Floats {
        let mut dots = [simd.zero_words(); ROWS];
        for r in 0..ROWS {
            dots[r] = simd.dot(dots[r], simd.nibbles(&rows[r].qs), &a.qs);
        }
        let totals = simd.minus(simd.totals(dots), simd.words(&[8 * a.sum; 8]));
        simd.add_scaled(sums, scales!(simd, rows, d), a.d, totals)
    }
}

impl Dot for BlockQ4_1 {
    type Activations = Rounded32;

    #[inline(always)]
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &Rounded32,
        sums: S::Floats,
    ) -> S::Floats {
        let mut dots = [simd.zero_words(); ROWS];
        for r in 0..ROWS {
            dots[r] = simd.dot(dots[r], simd.nibbles(&rows[r].qs), &a.qs);
        }
        let totals = simd.totals(dots);
        let sums = simd.add_scaled(sums, scales!(simd, rows, d), a.d, totals);
        // `(m * s) * 1` is `m * s`.
        let ones = simd.words(&[1; 8]);
        simd.add_scaled(sums, scales!(simd, rows, m), a.s, ones)
    }
}

impl Dot for BlockQ5_0 {
    type Activations = Rounded32;

    #[inline(always)]
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &Rounded32,
        sums: S::Floats,
    ) -> S::Floats {
        let mut dots = [simd.zero_words(); ROWS];
        for r in 0..ROWS {
            let codes = simd.or_sixteens(simd.nibbles(&rows[r].qs), rows[r].qh);
            dots[r] = simd.dot(dots[r], codes, &a.qs);
        }
        let totals = simd.minus(simd.totals(dots), simd.words(&[16 * a.sum; 8]));
        simd.add_scaled(sums, scales!(simd, rows, d), a.d, totals)
    }
}

impl Dot for BlockQ8_0 {
    type Activations = Rounded32;

    #[inline(always)]
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &Rounded32,
        sums: S::Floats,
    ) -> S::Floats {
        let mut dots = [simd.zero_words(); ROWS];
        for r in 0..ROWS {
            let codes = simd.load(bytemuck::cast_ref(&rows[r].qs));
            dots[r] = simd.dot_signed(dots[r], codes, &a.qs);
        }
        let offset = simd.words(&[S::SIGNED_OFFSET * a.sum; 8]);
        let totals = simd.minus(simd.totals(dots), offset);
        simd.add_scaled(sums, scales!(simd, rows, d), a.d, totals)
    }
}

/// `Σ min[s] a` of a row: the minima times the sums of the activations of each 32.
#[inline(always)]
fn dot_mins(mins: &[u8; 8], a: &BlockQ8K) -> i32 {
    let mut sum = 0;
    for (&min, [even, odd]) in mins.iter().zip(a.bsums.as_chunks().0) {
        sum += i32::from(min) * (i32::from(*even) + i32::from(*odd));
    }
    sum
}

impl Dot for BlockQ4K {
    type Activations = BlockQ8K;

    #[inline(always)]
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &BlockQ8K,
        sums: S::Floats,
    ) -> S::Floats {
        let activations = a.qs.as_chunks::<32>().0;
        let (mut dots, mut of_mins) = ([simd.zero_words(); ROWS], [0; ROWS]);
        for r in 0..ROWS {
            let (scales, mins) = scales_and_mins(&rows[r].scales);
            of_mins[r] = dot_mins(&mins, a);
            let qs = rows[r].qs.as_chunks::<32>().0;
            for c in 0..4 {
                let (low, high) = (i16::from(scales[2 * c]), i16::from(scales[2 * c + 1]));
                let codes = simd.load(&qs[c]);
                let even = simd.shift_right::<0>(codes, 15);
                dots[r] = simd.dot_scaled(dots[r], even, &activations[2 * c], [low; 2]);
                let odd = simd.shift_right::<4>(codes, 15);
                dots[r] = simd.dot_scaled(dots[r], odd, &activations[2 * c + 1], [high; 2]);
            }
        }
        let d = scales!(simd, rows, d);
        let sums = simd.add_scaled(sums, d, a.d, simd.totals(dots));
        simd.add_scaled(sums, scales!(simd, rows, dmin), -a.d, simd.words(&of_mins))
    }
}

impl Dot for BlockQ5K {
    type Activations = BlockQ8K;

    #[inline(always)]
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &BlockQ8K,
        sums: S::Floats,
    ) -> S::Floats {
        let activations = a.qs.as_chunks::<32>().0;
        let (mut dots, mut of_mins) = ([simd.zero_words(); ROWS], [0; ROWS]);
        for r in 0..ROWS {
            let (scales, mins) = scales_and_mins(&rows[r].scales);
            of_mins[r] = dot_mins(&mins, a);
            let qs = rows[r].qs.as_chunks::<32>().0;
            let qh = simd.load(&rows[r].qh);
            // Sub-block `s` takes bit `s` of each byte of `qh`.
            macro_rules! pair {
                ($c:literal) => {{
                    let codes = simd.load(&qs[$c]);
                    let fifth = simd.shift_left_4(simd.shift_right::<{ 2 * $c }>(qh, 1));
                    let even = simd.or(simd.shift_right::<0>(codes, 15), fifth);
                    let scale = i16::from(scales[2 * $c]);
                    dots[r] = simd.dot_scaled(dots[r], even, &activations[2 * $c], [scale; 2]);
                    let fifth = simd.shift_left_4(simd.shift_right::<{ 2 * $c + 1 }>(qh, 1));
                    let odd = simd.or(simd.shift_right::<4>(codes, 15), fifth);
                    let scale = i16::from(scales[2 * $c + 1]);
                    dots[r] = simd.dot_scaled(dots[r], odd, &activations[2 * $c + 1], [scale; 2]);
                }};
            }
            pair!(0);
            pair!(1);
            pair!(2);
            pair!(3);
        }
        let d = scales!(simd, rows, d);
        let sums = simd.add_scaled(sums, d, a.d, simd.totals(dots));
        simd.add_scaled(sums, scales!(simd, rows, dmin), -a.d, simd.words(&of_mins))
    }
}

impl Dot for BlockQ6K {
    type Activations = BlockQ8K;

    #[inline(always)]
    fn accumulate<S: Int8>(
        simd: S,
        rows: [&Self; ROWS],
        a: &BlockQ8K,
        sums: S::Floats,
    ) -> S::Floats {
        let activations = a.qs.as_chunks::<32>().0;
        let (mut dots, mut offsets) = ([simd.zero_words(); ROWS], [0; ROWS]);
        for r in 0..ROWS {
            let (ql, qh) = (
                rows[r].ql.as_chunks::<32>().0,
                rows[r].qh.as_chunks::<32>().0,
            );
            for s in 0..16 {
                offsets[r] += 32 * i32::from(rows[r].scales[s]) * i32::from(a.bsums[s]);
            }
            // Quarter `$k` of half `$n`: a nibble of one half of `ql`, bits 2k and 2k + 1 of `qh`.
            macro_rules! quarter {
                ($n:literal, $k:literal) => {{
                    let nibbles = simd.load(&ql[2 * $n + $k % 2]);
                    let low = simd.shift_right::<{ 4 * ($k / 2) }>(nibbles, 15);
                    let two = simd.shift_right::<{ 2 * $k }>(simd.load(&qh[$n]), 3);
                    let codes = simd.or(low, simd.shift_left_4(two));
                    let at = 8 * $n + 2 * $k;
                    let scales = [rows[r].scales[at].into(), rows[r].scales[at + 1].into()];
                    dots[r] = simd.dot_scaled(dots[r], codes, &activations[4 * $n + $k], scales);
                }};
            }
            quarter!(0, 0);
            quarter!(0, 1);
            quarter!(0, 2);
            quarter!(0, 3);
            quarter!(1, 0);
            quarter!(1, 1);
            quarter!(1, 2);
            quarter!(1, 3);
        }
        let totals = simd.minus(simd.totals(dots), simd.words(&offsets));
        simd.add_scaled(sums, scales!(simd, rows, d), a.d, totals)
    }
}
