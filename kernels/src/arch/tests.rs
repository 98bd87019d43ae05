//! The instruction sets against each other and against sums in `f64`.
//!
//! All of the crate's `unsafe` is reached from here. Under Miri, which has the CPU features that
//! it is compiled for:
//! `cargo +nightly miri test -p brick-kernels --lib`, and the same with
//! `RUSTFLAGS="-C target-feature=+avx2,+fma,+f16c"`.

use super::Isa;
use crate::quant::{Format, Matrix};

/// Rows and tokens of the largest ragged tile: more than any register tile. Under Miri, which takes
/// a thousand times as long, just enough for a whole tile and a rest.
const MOST: usize = if cfg!(miri) { 3 } else { 6 };

/// Numbers in -1..1 that differ from call to call only by `seed`.
fn numbers(seed: u32, n: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn dot_f64(a: &[f32], b: &[f32]) -> (f64, f64) {
    let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
    products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()))
}

fn assert_near(actual: f32, (sum, size): (f64, f64), what: &str) {
    let bound = 1e-6 * size + 1e-30;
    assert!(
        (f64::from(actual) - sum).abs() <= bound,
        "{what}: {actual} for {sum}"
    );
}

#[test]
fn tiles_of_every_ragged_size_are_dot_products() {
    for isa in Isa::available() {
        for (n_rows, n_tokens, k) in (1..=MOST)
            .flat_map(|r| (1..=MOST).flat_map(move |t| [1, 15, 16, 17, 63, 160].map(|k| (r, t, k))))
        {
            let panel = numbers(1, n_rows * k);
            let x = numbers(2, n_tokens * k);
            let mut out = vec![f32::NAN; n_rows * n_tokens];
            isa.gemm_tile(k, &panel, &x, &mut out);
            for (i, &y) in out.iter().enumerate() {
                let (t, r) = (i / n_rows, i % n_rows);
                let exact = dot_f64(&panel[r * k..][..k], &x[t * k..][..k]);
                assert_near(
                    y,
                    exact,
                    &format!("{isa:?} {n_rows}x{n_tokens}x{k} [{t}, {r}]"),
                );
            }
        }
    }
}

#[test]
fn weighted_sums_of_every_ragged_width() {
    for isa in Isa::available() {
        let shapes = [
            (1, 1),
            (3, 15),
            (5, 65),
            (0, 9),
            (7, 64),
            (33, 256),
            (2, 200),
        ];
        let few = if cfg!(miri) { 4 } else { shapes.len() };
        for ((n, cols), n_out) in shapes[..few]
            .iter()
            .copied()
            .flat_map(|s| (1..=MOST).map(move |n| (s, n)))
        {
            let stride = n + 3;
            let weights = numbers(3, n_out * stride);
            let rows = numbers(4, n * cols);
            let mut out = numbers(5, n_out * cols);
            let start = out.clone();
            isa.weighted_sums(&weights, stride, &rows, cols, &mut out);
            for (i, &sum) in out.iter().enumerate() {
                let (o, c) = (i / cols, i % cols);
                let column: Vec<f32> = rows.iter().skip(c).step_by(cols).copied().collect();
                let (exact, size) = dot_f64(&weights[o * stride..][..n], &column);
                let start = f64::from(start[i]);
                assert_near(
                    sum,
                    (exact + start, size + start.abs()),
                    &format!("{isa:?} {n}x{cols} [{o}, {c}]"),
                );
            }
        }
    }
}

#[test]
fn exponentials_of_every_length_are_a_step_of_a_softmax() {
    for isa in Isa::available() {
        for n in 0..40 {
            let scores = numbers(11, n);
            let largest = scores.iter().fold(-1.0f32, |max, x| max.max(8.0 * x));
            for (before, expected) in [(-1.0, largest), (20.0, 20.0)] {
                let mut out = scores.clone();
                let (max, sum) = isa.exponentials(&mut out, 8.0, before);
                assert_eq!(max, expected, "{isa:?} {n}");
                let exact = |x: &f32| (8.0 * f64::from(*x) - f64::from(max)).exp();
                let total: f64 = scores.iter().map(exact).sum();
                assert!(
                    (f64::from(sum) - total).abs() <= 1e-6 * total,
                    "{sum} for {total}"
                );
                for (x, out) in scores.iter().zip(out) {
                    assert!(
                        (f64::from(out) / exact(x) - 1.0).abs() < 2e-6,
                        "{isa:?} {n} {x}"
                    );
                }
            }
        }
        for at in [0, 16, 18] {
            let mut scores = numbers(12, 19);
            scores[at] = f32::NAN;
            let (max, sum) = isa.exponentials(&mut scores, 1.0, f32::NEG_INFINITY);
            assert!(max.is_finite() && sum.is_nan(), "{isa:?} {at}");
        }
        let masked = &mut [f32::NEG_INFINITY; 17];
        let (max, sum) = isa.exponentials(masked, 1.0, f32::NEG_INFINITY);
        assert!(max == f32::NEG_INFINITY && sum.is_nan());
    }
}

#[test]
fn a_gemv_is_the_tile_of_its_dequantised_rows_bit_for_bit() {
    for isa in Isa::available() {
        for (rows, cols) in [(1, 1), (5, 33), (9, 640), (4, 257), (6, 1000)] {
            let values = numbers(6, rows * cols);
            let w = Matrix::new(Format::F32, rows, cols, bytemuck::cast_slice(&values)).unwrap();
            let x = numbers(7, cols);
            let (mut gemv, mut tile) = (vec![0.0; rows], vec![0.0; rows]);
            isa.gemv(&w, 0, &x, &mut gemv);
            isa.gemm_tile(cols, &values, &x, &mut tile);
            assert_eq!(gemv, tile, "{isa:?} {rows}x{cols}");
        }
    }
}

#[test]
fn the_sets_with_fused_multiply_add_agree_bit_for_bit() {
    let fused: Vec<Isa> = Isa::available().into_iter().skip(1).collect();
    let panel = numbers(8, 7 * 333);
    let x = numbers(9, 5 * 333);
    let outs = fused.iter().map(|isa| {
        let mut out = vec![0.0; 7 * 5];
        isa.gemm_tile(333, &panel, &x, &mut out);
        out
    });
    let outs: Vec<_> = outs.collect();
    assert!(outs.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn rows_dequantise_alike_on_every_set() {
    let bits: Vec<u8> = numbers(10, 4 * 256 * 4)
        .iter()
        .map(|v| (v * 127.0) as i8 as u8)
        .collect();
    for format in Format::ALL {
        let cols = 512;
        let n = 2 * format.bytes_for(cols).unwrap();
        let w = Matrix::new(format, 2, cols, &bits[..n]).unwrap();
        let rows = Isa::available().into_iter().map(|isa| {
            let mut out = vec![0.0f32; 2 * cols];
            isa.dequantise_rows(&w, 0, &mut out);
            // Which NaN comes of a NaN is nobody's promise.
            let bits = |v: f32| if v.is_nan() { u32::MAX } else { v.to_bits() };
            out.into_iter().map(bits).collect::<Vec<_>>()
        });
        let rows: Vec<_> = rows.collect();
        assert!(rows.windows(2).all(|pair| pair[0] == pair[1]), "{format}");
    }
}

/// Every half there is, as the crate `half` converts it; a NaN stays one.
#[test]
fn halves_are_widened_exactly() {
    let step = if cfg!(miri) { 97 } else { 1 };
    let halves: Vec<u16> = (0..=u16::MAX).step_by(step).collect();
    for isa in Isa::available() {
        // With a tail, and from an odd place on.
        for start in [0, 1, 13] {
            let mut wide = vec![f32::INFINITY; halves.len() - start];
            isa.widen(&halves[start..], &mut wide);
            for (&half, wide) in halves[start..].iter().zip(wide) {
                let exact = half::f16::from_bits(half).to_f32_const();
                assert!(
                    wide.to_bits() == exact.to_bits() || wide.is_nan() && exact.is_nan(),
                    "{isa:?} {half:#06x}: {wide} for {exact}"
                );
            }
        }
    }
}
