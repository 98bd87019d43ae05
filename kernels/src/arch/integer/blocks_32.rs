//! The formats with 32 elements a block.

use super::{Ahead, Dot, Int8, REGISTERS, Rows, each, halves, row_of};
use crate::quant::{BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ8_0, F16, Rounded32};

/// What a format's block is made of.
pub(in crate::arch) trait Block32: Dot<Activations = Rounded32> {
    /// Whether there are minima.
    const MINS: bool;

    /// The scale of the codes.
    fn scale(&self) -> F16;

    /// The minimum, or the scale of the minima; anything where there is none.
    fn scale_of_min(&self) -> F16;

    /// Whether the codes are in -128..=127, not 0..=31.
    const SIGNED: bool;

    /// What is to be subtracted from a code.
    const OFFSET: i32;

    /// The codes of a block of each row.
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Bytes;
}

macro_rules! dot {
    ($($block:ident)*) => {$(
        impl Dot for $block {
            type Activations = Rounded32;

            #[inline(always)]
            fn accumulate<S: Int8<R>, const R: usize>(
                simd: S,
                rows: &Rows<'_, Self, R>,
                ahead: Ahead<'_>,
                a: &Rounded32,
                sums: S::Floats,
            ) -> S::Floats {
                accumulate(simd, rows, ahead, a, sums)
            }
        }
    )*};
}
dot!(BlockQ4_0 BlockQ4_1 BlockQ5_0 BlockQ8_0);

#[inline(always)]
fn accumulate<S: Int8<R>, B: Block32, const R: usize>(
    simd: S,
    rows: &Rows<'_, B, R>,
    ahead: Ahead<'_>,
    a: &Rounded32,
    sums: S::Floats,
) -> S::Floats {
    ahead.ask(simd, 0..REGISTERS * R * size_of::<B>());
    let mut dots = [simd.splat(0); REGISTERS];
    for i in 0..REGISTERS {
        let codes = B::codes(simd, rows[i]);
        dots[i] = if B::SIGNED {
            simd.dot_signed(dots[i], codes, &a.qs)
        } else {
            simd.dot(dots[i], codes, &a.qs)
        };
    }
    let offset = if B::SIGNED {
        S::SIGNED_OFFSET
    } else {
        B::OFFSET
    };
    let mut totals = simd.totals(dots);
    if offset != 0 {
        totals = simd.minus(totals, simd.splat(offset * a.sum));
    }
    let sums = simd.add_scaled(sums, halves!(simd, rows, row => row.scale()), a.d, totals);
    if !B::MINS {
        return sums;
    }
    // `(m * s) * 1` is `m * s`.
    simd.add_scaled(
        sums,
        halves!(simd, rows, row => row.scale_of_min()),
        a.s,
        simd.splat(1),
    )
}

impl Block32 for BlockQ4_0 {
    const MINS: bool = false;

    #[inline(always)]
    fn scale(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn scale_of_min(&self) -> F16 {
        self.d
    }

    const SIGNED: bool = false;
    const OFFSET: i32 = 8;

    #[inline(always)]
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Bytes {
        simd.nibbles(each!(rows, row => &row.qs))
    }
}

impl Block32 for BlockQ4_1 {
    const MINS: bool = true;

    #[inline(always)]
    fn scale(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn scale_of_min(&self) -> F16 {
        self.m
    }

    const SIGNED: bool = false;
    const OFFSET: i32 = 0;

    #[inline(always)]
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Bytes {
        simd.nibbles(each!(rows, row => &row.qs))
    }
}

impl Block32 for BlockQ5_0 {
    const MINS: bool = false;

    #[inline(always)]
    fn scale(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn scale_of_min(&self) -> F16 {
        self.d
    }

    const SIGNED: bool = false;
    const OFFSET: i32 = 16;

    #[inline(always)]
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Bytes {
        let low = simd.nibbles(each!(rows, row => &row.qs));
        simd.or_sixteens(low, each!(rows, row => row.qh))
    }
}

impl Block32 for BlockQ8_0 {
    const MINS: bool = false;

    #[inline(always)]
    fn scale(&self) -> F16 {
        self.d
    }

    #[inline(always)]
    fn scale_of_min(&self) -> F16 {
        self.d
    }

    const SIGNED: bool = true;
    const OFFSET: i32 = 0;

    #[inline(always)]
    fn codes<S: Int8<R>, const R: usize>(simd: S, rows: [&Self; R]) -> S::Bytes {
        simd.load(each!(rows, row => bytemuck::cast_ref(&row.qs)))
    }
}
