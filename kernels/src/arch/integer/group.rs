//! The rows that are multiplied together, and the memory of those that come next.

use std::hint::black_box;
use std::ops::Range;

use super::{Dot, Int8, REGISTERS, Rows, row_of};
use crate::quant::Matrix;

/// Groups of rows between the one at work and the one whose memory is asked for (measured from
/// memory: two thirds of the time of none; four are no better).
const AHEAD: usize = 2;

/// `8 R` consecutive rows of blocks.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Group<'a, const R: usize> {
    bytes: &'a [u8],
    row_bytes: usize,
}

impl<'a, const R: usize> Group<'a, R> {
    /// How many rows there are.
    pub(in crate::arch) const ROWS: usize = REGISTERS * R;

    /// `n` rows of `w` from `first` on, which exist; where those are fewer than a group, they and
    /// zeros are put into `padded`.
    #[inline(always)]
    pub(in crate::arch) fn new(
        w: &Matrix<'a>,
        first: usize,
        n: usize,
        padded: &'a mut Vec<u8>,
    ) -> Self {
        let bytes = w.rows_bytes(first..first + n);
        let row_bytes = bytes.len() / n;
        if n == Self::ROWS {
            return Self { bytes, row_bytes };
        }
        padded.clear();
        padded.extend_from_slice(bytes);
        padded.resize(Self::ROWS * row_bytes, 0);
        Self {
            bytes: padded,
            row_bytes,
        }
    }

    /// Block `b` of each row.
    #[inline(always)]
    pub(in crate::arch) fn blocks<B: Dot>(self, b: usize) -> Rows<'a, B, R> {
        const { assert!(align_of::<B>() == 1) };
        let in_row = b * size_of::<B>();
        assert!(in_row + size_of::<B>() <= self.row_bytes);
        assert!(self.bytes.len() == Self::ROWS * self.row_bytes);
        // Opaque, so that the compiler adds the rows' distances to it instead of counting up as many
        // pointers, which push each other out of the registers (measured from the cache: a tenth of
        // the time).
        let base = black_box(self.bytes.as_ptr().wrapping_add(in_row));
        let block = |row: usize| {
            // SAFETY: `bytes` holds `ROWS` rows, of which this is one, and the block ends inside its
            // row, as has just been checked. Any bytes are a block, at any address. (A check for
            // each row takes a tenth of the time, too.)
            unsafe { &*base.add(row * self.row_bytes).cast::<B>() }
        };
        let mut rows = [[block(0); R]; REGISTERS];
        for (register, rows) in rows.iter_mut().enumerate() {
            for (part, row) in rows.iter_mut().enumerate() {
                *row = block(row_of::<R>(register, part));
            }
        }
        rows
    }

    /// What is to be asked for while the blocks `b` are at work: the rows lie one after the other, so as
    /// many bytes as are read here, in their order.
    #[inline(always)]
    pub(in crate::arch) fn ahead<B: Dot>(self, b: usize) -> Ahead<'a> {
        let offset = AHEAD * Self::ROWS * self.row_bytes + b * Self::ROWS * size_of::<B>();
        Ahead {
            bytes: self.bytes,
            offset,
        }
    }
}

/// Memory that is to be asked for.
#[derive(Clone, Copy)]
pub(in crate::arch) struct Ahead<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl Ahead<'_> {
    /// Asks for the bytes of `range`.
    #[inline(always)]
    pub(in crate::arch) fn ask<S: Int8<R>, const R: usize>(self, simd: S, range: Range<usize>) {
        simd.prefetch(self.bytes, self.offset + range.start, range.len());
    }
}
