//! Rows of weights become a panel: unpacked as for one token, then interleaved in registers.

use super::{PANEL_ROWS, Panel, Panel32, Panel256};
use crate::arch::integer::blocks_32::Block32;
use crate::arch::integer::blocks_256::Block256;
use crate::arch::integer::{Group, Int8, REGISTERS, halves, row_of};
use crate::quant::{
    BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5K, BlockQ6K, BlockQ8_0, F16, Format, Matrix,
};

/// Fills `panel` with up to [`PANEL_ROWS`] rows of the matrix that it was made for. What it holds
/// of other rows is never read.
#[inline(always)]
pub(in crate::arch) fn pack<S: Int8<R>, const R: usize>(
    simd: S,
    w: &Matrix<'_>,
    first_row: usize,
    n_rows: usize,
    panel: &mut Panel,
) {
    debug_assert!(panel.format == w.format() && n_rows <= PANEL_ROWS);
    for (part, from) in (0..n_rows).step_by(Group::<R>::ROWS).enumerate() {
        let n = (n_rows - from).min(Group::<R>::ROWS);
        let mut padded = Vec::new();
        let group = Group::new(w, first_row + from, n, &mut padded);
        let (to_32, to_256) = (&mut panel.blocks_32[..], &mut panel.blocks_256[..]);
        match w.format() {
            Format::Q4_0 => pack_32::<S, BlockQ4_0, R>(simd, group, part, to_32),
            Format::Q4_1 => pack_32::<S, BlockQ4_1, R>(simd, group, part, to_32),
            Format::Q5_0 => pack_32::<S, BlockQ5_0, R>(simd, group, part, to_32),
            Format::Q8_0 => pack_32::<S, BlockQ8_0, R>(simd, group, part, to_32),
            Format::Q4K => pack_256::<S, BlockQ4K, R>(simd, group, part, to_256),
            Format::Q5K => pack_256::<S, BlockQ5K, R>(simd, group, part, to_256),
            Format::Q6K => pack_256::<S, BlockQ6K, R>(simd, group, part, to_256),
            Format::F32 | Format::F16 | Format::Bf16 => unreachable!("formats without blocks"),
        }
    }
}

/// Part `part` of sixteen rows' `N` elements each: those of the `8 R` rows of a group.
#[inline(always)]
fn part_of<T, const N: usize, const R: usize>(all: &mut [T], part: usize) -> &mut [[T; N]; R] {
    let parts = all.as_chunks_mut().0;
    parts[part * R..]
        .first_chunk_mut()
        .expect("R of 16 / 8 parts")
}

#[inline(always)]
fn pack_32<S: Int8<R>, B: Block32, const R: usize>(
    simd: S,
    group: Group<'_, R>,
    part: usize,
    to: &mut [Panel32],
) {
    for (b, to) in to.iter_mut().enumerate() {
        let rows = group.blocks::<B>(b);
        group
            .ahead::<B>(b)
            .ask(simd, 0..REGISTERS * R * size_of::<B>());
        let mut codes = [B::codes(simd, rows[0]); REGISTERS];
        for i in 1..REGISTERS {
            codes[i] = B::codes(simd, rows[i]);
        }
        store(simd, codes, part, &mut to.codes);
        simd.store(
            halves!(simd, rows, row => row.scale()),
            part_of(&mut to.d, part),
        );
        if B::MINS {
            let m = halves!(simd, rows, row => row.scale_of_min());
            simd.store(m, part_of(&mut to.m, part));
        }
    }
}

#[inline(always)]
fn pack_256<S: Int8<R>, B: Block256, const R: usize>(
    simd: S,
    group: Group<'_, R>,
    part: usize,
    to: &mut [Panel256],
) {
    for (b, to) in to.iter_mut().enumerate() {
        let rows = group.blocks::<B>(b);
        let ahead = group.ahead::<B>(b);
        ahead.ask(simd, 0..R * size_of::<B>());
        let mut codes = [B::codes(simd, rows[0]); REGISTERS];
        let mut scales = [simd.bytes_of(B::sub_scales(simd, rows[0])); REGISTERS];
        for i in 1..REGISTERS {
            ahead.ask(simd, i * R * size_of::<B>()..(i + 1) * R * size_of::<B>());
            codes[i] = B::codes(simd, rows[i]);
            scales[i] = simd.bytes_of(B::sub_scales(simd, rows[i]));
        }
        for (k, to) in to.codes.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let mut of_rows = [codes[0][k]; REGISTERS];
            for i in 1..REGISTERS {
                of_rows[i] = codes[i][k];
            }
            store(simd, of_rows, part, to);
        }
        let mut pairs = [[0; 4 * PANEL_ROWS]; 8];
        store(simd, scales, part, &mut pairs);
        set_sub_scales::<B, R>(&pairs, part, to);
        simd.store(
            halves!(simd, rows, row => row.scale()),
            part_of(&mut to.d, part),
        );
        if B::MINS {
            let dmin = halves!(simd, rows, row => row.scale_of_min());
            simd.store(dmin, part_of(&mut to.dmin, part));
        }
    }
}

#[inline(always)]
fn store<S: Int8<R>, const R: usize>(
    simd: S,
    rows: [S::Bytes; REGISTERS],
    part: usize,
    to: &mut [[u8; 4 * PANEL_ROWS]; 8],
) {
    let interleaved = simd.interleave(rows);
    for (j, to) in to.iter_mut().enumerate() {
        simd.store_bytes(interleaved[j], part_of(to, part));
    }
}

/// From pairs of `i16`, one of each row.
#[inline(always)]
fn set_sub_scales<B: Block256, const R: usize>(
    pairs: &[[u8; 4 * PANEL_ROWS]; 8],
    part: usize,
    to: &mut Panel256,
) {
    let rows = part * Group::<R>::ROWS..(part + 1) * Group::<R>::ROWS;
    let n_scales = if B::MINS { 8 } else { 16 };
    for (pairs, to) in pairs[..n_scales / 2]
        .iter()
        .zip(to.scales.as_chunks_mut::<2>().0)
    {
        for r in rows.clone() {
            let pair = &pairs.as_chunks::<4>().0[r];
            to[0][r] = i16::from_le_bytes([pair[0], pair[1]]).into();
            to[1][r] = i16::from_le_bytes([pair[2], pair[3]]).into();
        }
    }
    if B::MINS {
        for (pairs, to) in pairs[4..].iter().zip(&mut to.mins) {
            for r in rows.clone() {
                let pair = &pairs.as_chunks::<4>().0[r];
                to[2 * r] = i16::from_le_bytes([pair[0], pair[1]]);
                to[2 * r + 1] = i16::from_le_bytes([pair[2], pair[3]]);
            }
        }
    }
}
