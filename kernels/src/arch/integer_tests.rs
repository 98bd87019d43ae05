//! Integer dot products: every instruction set against a scalar reference that reads the blocks
//! byte by byte, as golden/quant/README.md describes them. All must give the same bits.

use std::ops::RangeInclusive;

use bytemuck::Zeroable;
use proptest::prelude::*;

use super::{Isa, PANEL_ROWS, Panel};
use crate::quant::{ActivationFormat, BlockQ8K, Format, Matrix, Rounded, Rounded32};

const FORMATS: [Format; 7] = [
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q8_0,
    Format::Q4K,
    Format::Q5K,
    Format::Q6K,
];

fn half(block: &[u8], at: usize) -> f32 {
    half::f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// Element `i` of a block of `format`, as an integer without scale, minimum and offset.
fn code(format: Format, block: &[u8], i: usize) -> i32 {
    let nibble = |qs: &[u8], i: usize| {
        if i < qs.len() {
            qs[i] & 15
        } else {
            qs[i - qs.len()] >> 4
        }
    };
    let code = match format {
        Format::Q4_0 => nibble(&block[2..], i),
        Format::Q4_1 => nibble(&block[4..], i),
        Format::Q5_0 => nibble(&block[6..], i) | (block[2 + i / 8] >> (i % 8) & 1) << 4,
        Format::Q8_0 => return i32::from(block[2 + i] as i8),
        Format::Q4K => nibble(&block[16 + i / 64 * 32..][..32], i % 64),
        Format::Q5K => {
            let low = nibble(&block[48 + i / 64 * 32..][..32], i % 64);
            low | (block[16 + i % 32] >> (i / 32) & 1) << 4
        }
        Format::Q6K => {
            let (n, k, l) = (i / 128, i % 128 / 32, i % 32);
            let ql = block[64 * n + 32 * (k % 2) + l];
            let low = if k < 2 { ql & 15 } else { ql >> 4 };
            low | (block[128 + 32 * n + l] >> (2 * k) & 3) << 4
        }
        _ => panic!("{format} has no blocks"),
    };
    code.into()
}

/// Six-bit scale and minimum of sub-block `s`.
fn scale_and_min(packed: &[u8], s: usize) -> (i32, i32) {
    let (scale, min) = match s {
        0..4 => (packed[s] & 63, packed[s + 4] & 63),
        _ => (
            packed[s + 4] & 15 | packed[s - 4] >> 6 << 4,
            packed[s + 4] >> 4 | packed[s] >> 6 << 4,
        ),
    };
    (scale.into(), min.into())
}

/// What one row of blocks of 32 times rounded activations is.
fn dot_32(format: Format, row: &[u8], a: &[Rounded32]) -> f32 {
    let mut sum = 0.0f32;
    for (block, a) in row.chunks_exact(format.block_bytes()).zip(a) {
        let offset = match format {
            Format::Q4_0 => 8,
            Format::Q5_0 => 16,
            _ => 0,
        };
        let products = (0..32).map(|i| (code(format, block, i) - offset) * i32::from(a.qs[i]));
        sum += half(block, 0) * a.d * products.sum::<i32>() as f32;
        if format == Format::Q4_1 {
            let of_activations: i32 = a.qs.iter().map(|&q| i32::from(q)).sum();
            sum += half(block, 2) * (a.d * of_activations as f32);
        }
    }
    sum
}

/// What one row of blocks of 256 times rounded activations is.
fn dot_256(format: Format, row: &[u8], a: &[BlockQ8K]) -> f32 {
    let mut sum = 0.0f32;
    for (block, a) in row.chunks_exact(format.block_bytes()).zip(a) {
        let q = |i: usize| i32::from(a.qs[i]);
        if format == Format::Q6K {
            let scale = |i: usize| i32::from(block[192 + i / 16] as i8);
            let products = (0..256).map(|i| scale(i) * (code(format, block, i) - 32) * q(i));
            sum += half(block, 208) * a.d * products.sum::<i32>() as f32;
        } else {
            let scales = |i: usize| scale_and_min(&block[4..16], i / 32);
            let products = (0..256).map(|i| scales(i).0 * code(format, block, i) * q(i));
            sum += half(block, 0) * a.d * products.sum::<i32>() as f32;
            let mins = (0..256).map(|i| scales(i).1 * q(i));
            sum += half(block, 2) * -a.d * mins.sum::<i32>() as f32;
        }
    }
    sum
}

/// Activations of `n_tokens`, rounded by `isa` to what `format` takes.
fn rounded(isa: Isa, format: Format, x: &[f32], n_tokens: usize) -> Rounded {
    let mut rounded = Rounded::default();
    match ActivationFormat::for_weights(format).unwrap() {
        ActivationFormat::Q8_0 => {
            let x = x.as_chunks().0;
            let mut blocks = vec![Rounded32::zeroed(); x.len()];
            isa.round_32(x, &mut blocks);
            rounded.set_blocks_32(blocks, n_tokens);
        }
        ActivationFormat::Q8K => {
            let x = x.as_chunks().0;
            let mut blocks = vec![BlockQ8K::zeroed(); x.len()];
            isa.round_256(x, &mut blocks);
            rounded.set_blocks_256(blocks, n_tokens);
        }
    }
    rounded
}

fn bits(x: &[f32]) -> Vec<u32> {
    // Which NaN comes of a NaN is nobody's promise.
    let bits = |v: &f32| if v.is_nan() { u32::MAX } else { v.to_bits() };
    x.iter().map(bits).collect()
}

/// All paths over `n_rows` rows, from every row on that leaves a ragged end, against the reference.
fn compare(format: Format, n_rows: usize, cols: usize, bytes: &[u8], x: &[f32]) {
    let w = Matrix::new(format, n_rows, cols, bytes).unwrap();
    let n_tokens = x.len() / cols;
    let reference = rounded(Isa::available()[0], format, x, n_tokens);
    let expected = |t: usize, r: usize| match ActivationFormat::for_weights(format).unwrap() {
        ActivationFormat::Q8_0 => dot_32(format, w.row(r).unwrap(), reference.blocks_32(t)),
        ActivationFormat::Q8K => dot_256(format, w.row(r).unwrap(), reference.blocks_256(t)),
    };
    let of_token = |t: usize| (0..n_rows).map(|r| expected(t, r)).collect::<Vec<_>>();
    let expected: Vec<Vec<f32>> = (0..n_tokens).map(of_token).collect();
    for isa in Isa::available() {
        let name = isa.key();
        let x = rounded(isa, format, x, n_tokens);
        for first in [0, n_rows / 2] {
            let mut y = vec![f32::NAN; n_rows - first];
            for (t, expected) in expected.iter().enumerate() {
                isa.gemv_rounded(&w, first, &x, t, &mut y);
                assert_eq!(
                    bits(&y),
                    bits(&expected[first..]),
                    "{name} {format} token {t}"
                );
            }
        }
        let mut panel = Panel::new(&w);
        for first in (0..n_rows).step_by(PANEL_ROWS) {
            let rows = first..n_rows.min(first + PANEL_ROWS);
            isa.pack(&w, first, rows.len(), &mut panel);
            for token in [0, n_tokens / 3] {
                let mut out = vec![[f32::NAN; PANEL_ROWS]; n_tokens - token];
                isa.gemm_panel(&panel, &x, token, &mut out);
                for (out, expected) in out.iter().zip(&expected[token..]) {
                    let (out, expected) = (&out[..rows.len()], &expected[rows.clone()]);
                    assert_eq!(bits(out), bits(expected), "{name} {format} panel {first}");
                }
            }
        }
    }
}

/// Bits without order, a generator of their own for each seed.
fn random(seed: u64, n: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as u8
    };
    (0..n).map(|_| next()).collect()
}

/// Blocks of random bits, scales included: some of those are NaN, infinite or subnormal.
fn random_blocks(format: Format, seed: u64, elems: usize) -> Vec<u8> {
    random(seed, format.bytes_for(elems).unwrap())
}

fn random_floats(seed: u64, n: usize, exponents: RangeInclusive<i32>) -> Vec<f32> {
    let bytes = random(seed, 4 * n);
    let exponent =
        |b: u8| exponents.start() + i32::from(b) % (exponents.end() - exponents.start() + 1);
    let value =
        |b: &[u8; 4]| f32::from(i16::from_le_bytes([b[0], b[1]])) * 2f32.powi(exponent(b[2]) - 15);
    bytes.as_chunks().0.iter().map(value).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 1 } else { 128 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_set_gives_the_bits_of_the_reference(
        n_rows in 1usize..=if cfg!(miri) { 2 } else { 37 },
        blocks in 1usize..=if cfg!(miri) { 1 } else { 5 },
        n_tokens in 1usize..=if cfg!(miri) { 2 } else { 27 },
        magnitude in -30i32..30,
        seed: u64,
    ) {
        // Under Miri a format takes a minute: one of each size of blocks, the most involved ones.
        let few = [Format::Q5_0, Format::Q4K];
        for &format in if cfg!(miri) { &few[..] } else { &FORMATS[..] } {
            let cols = blocks * format.block_elems();
            // One byte before the blocks, so that they lie at every alignment.
            let bytes = random_blocks(format, seed, n_rows * cols);
            let unaligned = [&[0], &bytes[..]].concat();
            let x = random_floats(seed ^ 1, n_tokens * cols, magnitude - 3..=magnitude);
            compare(format, n_rows, cols, &unaligned[1..], &x);
        }
    }
}

/// The largest products there can be: nothing saturates or overflows.
#[test]
#[cfg_attr(
    miri,
    ignore = "minutes, over memory that the random blocks are read from too"
)]
fn extremes_of_every_code() {
    for format in FORMATS {
        let cols = 2 * format.block_elems();
        for byte in [0x00, 0x7f, 0x80, 0xff, 0x88, 0x3f] {
            let mut bytes = vec![byte; 2 * format.bytes_for(cols).unwrap()];
            for block in bytes.chunks_exact_mut(format.block_bytes()) {
                let one = half::f16::ONE.to_le_bytes();
                let halves: &[usize] = match format {
                    Format::Q4_1 | Format::Q4K | Format::Q5K => &[0, 2],
                    Format::Q6K => &[208],
                    _ => &[0],
                };
                for &at in halves {
                    block[at..at + 2].copy_from_slice(&one);
                }
            }
            for x in [vec![1.0; cols], vec![-1.0; cols]] {
                compare(format, 2, cols, &bytes, &x);
            }
        }
    }
}

/// A NaN or an infinity in one activation reaches every output that depends on it, and no other.
#[test]
#[cfg_attr(
    miri,
    ignore = "minutes, over memory that the random blocks are read from too"
)]
fn what_is_not_finite_comes_through() {
    for format in FORMATS {
        let (n_rows, cols, n_tokens) = (17, 2 * format.block_elems(), 3);
        let mut bytes = random_blocks(format, 5, n_rows * cols);
        let bad_scale = |bytes: &[u8]| {
            let w = Matrix::new(format, n_rows, cols, bytes).unwrap();
            w.find_bad_scale()
        };
        while let Some(bad) = bad_scale(&bytes) {
            let at = (bad.row * 2 + bad.block) * format.block_bytes();
            bytes[at..at + format.block_bytes()].fill(0);
        }
        let w = Matrix::new(format, n_rows, cols, &bytes).unwrap();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            for at in [0, 7, cols / 2 + 30, cols - 1] {
                let mut x = random_floats(6, n_tokens * cols, -2..=1);
                x[cols + at] = bad;
                for isa in Isa::available() {
                    let x = rounded(isa, format, &x, n_tokens);
                    let mut panel = Panel::new(&w);
                    isa.pack(&w, 0, PANEL_ROWS, &mut panel);
                    let mut out = [[0.0; PANEL_ROWS]; 3];
                    isa.gemm_panel(&panel, &x, 0, &mut out);
                    for (t, out) in out.iter().enumerate() {
                        let mut y = vec![0.0; n_rows];
                        isa.gemv_rounded(&w, 0, &x, t, &mut y);
                        let what = format!("{} {format} {bad} {at} {t}", isa.key());
                        for v in y.iter().chain(out) {
                            assert_eq!(v.is_finite(), t != 1, "{what}: {v}");
                        }
                    }
                }
            }
        }
    }
}

/// Activations too small or too large for a half as their scale keep all their bits, and those
/// below the smallest normal numbers are zeros.
#[test]
fn scales_outside_of_halves_are_exact() {
    for magnitude in [
        1e-36f32,
        1e-20,
        1e-6,
        1e-3,
        1.0,
        1e6,
        1e8,
        1e30,
        f32::MAX / 4.0,
    ] {
        let x: Vec<f32> = random_floats(9, 256, -1..=0);
        let largest = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let x: Vec<f32> = x.iter().map(|v| v / largest * magnitude).collect();
        for isa in Isa::available() {
            let mut blocks = [Rounded32::zeroed(); 8];
            isa.round_32(x.as_chunks().0, &mut blocks);
            for (x, block) in x.as_chunks::<32>().0.iter().zip(blocks) {
                let max = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
                for (x, q) in x.iter().zip(block.qs) {
                    // Half a step, and what a half's eleven bits leave of the scale.
                    let off = (x - f32::from(q) * block.d).abs();
                    assert!(
                        off <= max * (0.5 / 127.0 + 1.0 / 2048.0),
                        "{x} {q} {}",
                        block.d
                    );
                }
            }
        }
    }
    for isa in Isa::available() {
        let mut blocks = [Rounded32::zeroed()];
        isa.round_32(&[[1e-40; 32]], &mut blocks);
        assert_eq!((blocks[0].qs, blocks[0].d.is_finite()), ([0; 32], true));
        let mut blocks = [BlockQ8K::zeroed()];
        isa.round_256(&[[1e-40; 256]], &mut blocks);
        assert_eq!(blocks[0], BlockQ8K::zeroed());
    }
}
