//! The formats with 256 elements a block, in sub-blocks with scales of their own.

use super::{Ahead, Dot, Int8, REGISTERS, Rows, each, halves, row_of};
use crate::quant::{BlockQ4K, BlockQ5K, BlockQ6K, BlockQ8K, F16};

/// What a format's block is made of.
pub(in crate::arch) trait Block256: Dot<Activations = BlockQ8K> {
    /// Whether there are minima.
    const MINS: bool;

    /// The scale of the codes.
    fn scale(&self) -> F16;

    /// The minimum, or the scale of the minima; anything where there is none.
    fn scale_of_min(&self) -> F16;

    /// The scales of the sub-blocks; where there are but eight, the minima after them.
    fn sub_scales<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Shorts;

    /// The codes of each 32 elements.
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> [S::Bytes; 8];
}

macro_rules! dot {
    ($($block:ident)*) => {$(
        impl Dot for $block {
            type Activations = BlockQ8K;

            #[inline(always)]
            fn accumulate<S: Int8<R>, const R: usize>(
                simd: S,
                rows: &Rows<'_, Self, R>,
                ahead: Ahead<'_>,
                a: &BlockQ8K,
                sums: S::Floats,
            ) -> S::Floats {
                accumulate(simd, rows, ahead, a, sums)
            }
        }
    )*};
}
dot!(BlockQ4K BlockQ5K BlockQ6K);

/// The sums of activations that belong to the sixteen of [`Block256::sub_scales`]: for minima those of
/// 32 each, and none for the scales; else those of 16, which the offset of the codes is for.
#[inline(always)]
fn sums_of<B: Block256>(a: &BlockQ8K) -> [i16; 16] {
    if !B::MINS {
        return a.bsums;
    }
    let mut sums = [0; 16];
    for (sum, [even, odd]) in sums[8..].iter_mut().zip(a.bsums.as_chunks().0) {
        *sum = even + odd;
    }
    sums
}

#[inline(always)]
fn accumulate<S: Int8<R>, B: Block256, const R: usize>(
    simd: S,
    rows: &Rows<'_, B, R>,
    ahead: Ahead<'_>,
    a: &BlockQ8K,
    sums: S::Floats,
) -> S::Floats {
    let activations = a.qs.as_chunks::<32>().0;
    let sums_of_a = sums_of::<B>(a);
    let mut dots = [simd.splat(0); REGISTERS];
    let mut offsets = dots;
    for i in 0..REGISTERS {
        // A few lines at a time: more than a dozen at once would wait for each other.
        ahead.ask(simd, i * R * size_of::<B>()..(i + 1) * R * size_of::<B>());
        let scales = B::sub_scales(simd, rows[i]);
        offsets[i] = simd.dot_shorts(scales, &sums_of_a);
        let codes = B::codes(simd, rows[i]);
        for k in 0..8 {
            let at = if B::MINS { [k; 2] } else { [2 * k, 2 * k + 1] };
            dots[i] = simd.dot_scaled(dots[i], codes[k], &activations[k], scales, at);
        }
    }
    let (totals, offsets) = (simd.totals(dots), simd.totals(offsets));
    let d = halves!(simd, rows, row => row.scale());
    if B::MINS {
        let sums = simd.add_scaled(sums, d, a.d, totals);
        simd.add_scaled(
            sums,
            halves!(simd, rows, row => row.scale_of_min()),
            -a.d,
            offsets,
        )
    } else {
        let totals = simd.minus(totals, simd.times_32(offsets));
        simd.add_scaled(sums, d, a.d, totals)
    }
}

/// The first 16 bytes of a block.
#[inline(always)]
fn head<B: Block256>(block: &B) -> &[u8; 16] {
    bytemuck::bytes_of(block)
        .first_chunk()
        .expect("blocks are larger")
}

impl Block256 for BlockQ4K {
    const MINS: bool = true;

    #[inline(always)]
    fn scale(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn scale_of_min(&self) -> F16 {
        self.dmin
    }

    #[inline(always)]
    fn sub_scales<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Shorts {
        simd.six_bits(each!(rows, row => head(row)))
    }

    #[inline(always)]
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> [S::Bytes; 8] {
        let mut out = [simd.load([&[0; 32]; R]); 8];
        for c in 0..4 {
            let codes = simd.load(each!(rows, row => &row.qs.as_chunks::<32>().0[c]));
            out[2 * c] = simd.shift_right::<0>(codes, 15);
            out[2 * c + 1] = simd.shift_right::<4>(codes, 15);
        }
        out
    }
}

impl Block256 for BlockQ5K {
    const MINS: bool = true;

    #[inline(always)]
    fn scale(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn scale_of_min(&self) -> F16 {
        self.dmin
    }

    #[inline(always)]
    fn sub_scales<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Shorts {
        simd.six_bits(each!(rows, row => head(row)))
    }

    #[inline(always)]
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> [S::Bytes; 8] {
        let qh = simd.load(each!(rows, row => &row.qh));
        // Sub-block `s` takes bit `s` of each byte of `qh`.
        let fifths = [
            [simd.shift_left::<4>(qh, 16), simd.shift_left::<3>(qh, 16)],
            [simd.shift_left::<2>(qh, 16), simd.shift_left::<1>(qh, 16)],
            [simd.shift_right::<0>(qh, 16), simd.shift_right::<1>(qh, 16)],
            [simd.shift_right::<2>(qh, 16), simd.shift_right::<3>(qh, 16)],
        ];
        let mut out = [qh; 8];
        for c in 0..4 {
            let codes = simd.load(each!(rows, row => &row.qs.as_chunks::<32>().0[c]));
            let [even, odd] = fifths[c];
            out[2 * c] = simd.or(simd.shift_right::<0>(codes, 15), even);
            out[2 * c + 1] = simd.or(simd.shift_right::<4>(codes, 15), odd);
        }
        out
    }
}

impl Block256 for BlockQ6K {
    const MINS: bool = false;

    #[inline(always)]
    fn scale(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn scale_of_min(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn sub_scales<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Shorts {
        simd.extend(each!(rows, row => &row.scales))
    }

    #[inline(always)]
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> [S::Bytes; 8] {
        let mut out = [simd.load([&[0; 32]; R]); 8];
        for n in 0..2 {
            let qh = simd.load(each!(rows, row => &row.qh.as_chunks::<32>().0[n]));
            let even = simd.load(each!(rows, row => &row.ql.as_chunks::<32>().0[2 * n]));
            let odd = simd.load(each!(rows, row => &row.ql.as_chunks::<32>().0[2 * n + 1]));
            // Quarter `k` of a half: a nibble of `ql`, bits `2 k` and `2 k + 1` of `qh`.
            let quarters = [
                (
                    simd.shift_right::<0>(even, 15),
                    simd.shift_left::<4>(qh, 0x30),
                ),
                (
                    simd.shift_right::<0>(odd, 15),
                    simd.shift_left::<2>(qh, 0x30),
                ),
                (
                    simd.shift_right::<4>(even, 15),
                    simd.shift_right::<0>(qh, 0x30),
                ),
                (
                    simd.shift_right::<4>(odd, 15),
                    simd.shift_right::<2>(qh, 0x30),
                ),
            ];
            for k in 0..4 {
                out[4 * n + k] = simd.or(quarters[k].0, quarters[k].1);
            }
        }
        out
    }
}
