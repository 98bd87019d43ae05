//! Matrix products and projections, over every format, against sums in `f64`.

mod common;

use brick_kernels::activation::Activation;
use brick_kernels::embedding::embedding;
use brick_kernels::gemm::{gemm, gemv};
use brick_kernels::lm_head::lm_head;
use brick_kernels::projection::{
    GateUpWeights, QkvWeights, down_projection, gate_up_projection, output_projection,
    qkv_projection,
};
use brick_kernels::quant::{ActivationFormat, Activations, Format, Matrix, round_activations};
use common::{dot, numbers, on_threads, weights};
use proptest::prelude::*;

/// Rows of `w`, dequantised one by one.
fn rows(w: &Matrix<'_>) -> Vec<Vec<f32>> {
    let row = |r| {
        let mut row = vec![0.0; w.cols()];
        w.dequantise_row(r, &mut row).unwrap();
        row
    };
    (0..w.rows()).map(row).collect()
}

/// `[n_tokens, rows]`: each product with what its rounding is measured against. The activations are
/// those that the product is to see.
fn reference(w: &Matrix<'_>, x: &[f32]) -> Vec<(f64, f64)> {
    let rows = rows(w);
    let taken = ActivationFormat::for_weights(w.format());
    let mut x = x.to_vec();
    if let (Some(taken), Activations::Rounded) = (taken, w.activations()) {
        let exact = x.clone();
        round_activations(taken, &exact, &mut x).unwrap();
    }
    x.chunks_exact(w.cols())
        .flat_map(|x| rows.iter().map(|row| dot(row, x)).collect::<Vec<_>>())
        .collect()
}

#[track_caller]
fn assert_products(actual: &[f32], expected: &[(f64, f64)]) {
    assert_eq!(actual.len(), expected.len());
    for (i, (&a, &(sum, size))) in actual.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(a) - sum).abs() <= 2e-6 * size + 1e-30,
            "[{i}]: {a}, expected {sum}"
        );
    }
}

fn any_format() -> impl Strategy<Value = Format> {
    prop::sample::select(Format::ALL.to_vec())
}

fn any_activations() -> impl Strategy<Value = Activations> {
    prop_oneof![Just(Activations::F32), Just(Activations::Rounded)]
}

proptest! {
    #[test]
    fn gemm_and_gemv_are_dot_products_over_every_format(
        format in any_format(),
        activations in any_activations(),
        n_rows in 1usize..150,
        blocks in 1usize..6,
        ragged in 1usize..300,
        n_tokens in 0usize..30,
        seed: u64,
    ) {
        let cols = if format.block_elems() == 1 { ragged } else { blocks * format.block_elems() };
        let bytes = weights(format, seed, n_rows * cols);
        let w = Matrix::new(format, n_rows, cols, &bytes).unwrap();
        let w = w.with_activations(activations);
        let x = numbers(seed ^ 1, n_tokens * cols);
        let mut y = vec![f32::NAN; n_tokens * n_rows];
        gemm(&w, &x, n_tokens, &mut y).unwrap();
        assert_products(&y, &reference(&w, &x));

        // One token at a time gives the same bits.
        let mut alone = vec![f32::NAN; n_rows];
        for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact(n_rows)) {
            gemv(&w, x, &mut alone).unwrap();
            prop_assert_eq!(&alone[..], y);
        }
    }

    #[test]
    fn fused_projections_are_their_parts(
        formats in [any_format(), any_format(), any_format()],
        activations in any_activations(),
        (q_rows, kv_rows) in (1usize..90, 1usize..50),
        n_tokens in 1usize..6,
        with_biases: bool,
        seed: u64,
    ) {
        let cols = 256;
        let rows = [q_rows, kv_rows, kv_rows];
        let bytes = [0, 1, 2].map(|i| weights(formats[i], seed ^ i as u64, rows[i] * cols));
        let matrix = |i: usize| {
            let w = Matrix::new(formats[i], rows[i], cols, &bytes[i]).unwrap();
            w.with_activations(activations)
        };
        let biases = [q_rows, kv_rows, kv_rows].map(|rows| numbers(seed ^ 7, rows));
        let bias = |i: usize| with_biases.then_some(&biases[i][..]);
        let w = QkvWeights {
            q: matrix(0),
            k: matrix(1),
            v: matrix(2),
            q_bias: bias(0),
            k_bias: bias(1),
            v_bias: bias(2),
        };
        let x = numbers(seed ^ 3, n_tokens * cols);
        let mut q = vec![f32::NAN; n_tokens * q_rows];
        let mut k = vec![f32::NAN; n_tokens * kv_rows];
        let mut v = k.clone();
        qkv_projection(&w, &x, n_tokens, &mut q, &mut k, &mut v).unwrap();
        for (out, (w, i)) in [&q, &k, &v].into_iter().zip([(&w.q, 0), (&w.k, 1), (&w.v, 2)]) {
            let mut expected = reference(w, &x);
            for (i, bias) in expected.iter_mut().zip(biases[i].iter().cycle()) {
                if with_biases {
                    *i = (i.0 + f64::from(*bias), i.1 + f64::from(bias.abs()));
                }
            }
            assert_products(out, &expected);
        }
    }

    #[test]
    fn gate_up_is_the_activation_of_one_product_times_the_other(
        formats in [any_format(), any_format()],
        activations in any_activations(),
        n_ff in 1usize..150,
        n_tokens in 1usize..6,
        gelu: bool,
        seed: u64,
    ) {
        let cols = 256;
        // If one of the two takes its activations as they are, so does the other.
        let all_round = formats.iter().all(|&f| ActivationFormat::for_weights(f).is_some());
        let bytes = [0, 1].map(|i| weights(formats[i], seed ^ i as u64, n_ff * cols));
        let matrix = |i: usize, activations| {
            let w = Matrix::new(formats[i], n_ff, cols, &bytes[i]).unwrap();
            w.with_activations(activations)
        };
        let pair = |activations| GateUpWeights {
            gate: matrix(0, activations),
            up: matrix(1, activations),
        };
        let w = pair(activations);
        let x = numbers(seed ^ 3, n_tokens * cols);
        let mut out = vec![f32::NAN; n_tokens * n_ff];
        let kind = if gelu { Activation::GeluTanh } else { Activation::Silu };
        gate_up_projection(&w, kind, &x, n_tokens, &mut out).unwrap();
        let seen = pair(if all_round { activations } else { Activations::F32 });
        let (gates, ups) = (reference(&seen.gate, &x), reference(&seen.up, &x));
        let expected = gates.iter().zip(&ups).map(|(&(gate, gate_size), &(up, up_size))| {
            let activated = if gelu {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044715 * gate.powi(3));
                0.5 * gate * (1.0 + u.tanh())
            } else {
                gate / (1.0 + (-gate).exp())
            };
            // Both derivatives are below 1.2, so an error of the gate comes through as that.
            (activated * up, 3.0 * gate_size * up_size + 3.0 * up_size)
        });
        assert_products(&out, &expected.collect::<Vec<_>>());
    }

    #[test]
    fn an_embedding_is_scaled_rows(
        format in any_format(), tokens in prop::collection::vec(0u32..9, 0..5), seed: u64,
    ) {
        let cols = 512;
        let bytes = weights(format, seed, 9 * cols);
        let table = Matrix::new(format, 9, cols, &bytes).unwrap();
        let mut out = vec![f32::NAN; tokens.len() * cols];
        embedding(&table, &tokens, 25.0, &mut out).unwrap();
        let rows = rows(&table);
        let expected = tokens.iter().flat_map(|&t| rows[t as usize].iter().map(|v| v * 25.0));
        prop_assert!(out.iter().copied().eq(expected));
    }
}

#[test]
fn the_named_projections_are_the_same_product() {
    let (rows, cols, n_tokens) = (37, 64, 3);
    let bytes = weights(Format::Q8_0, 1, rows * cols);
    let w = Matrix::new(Format::Q8_0, rows, cols, &bytes).unwrap();
    let x = numbers(2, n_tokens * cols);
    for kernel in [output_projection, down_projection, lm_head] {
        let mut out = vec![f32::NAN; n_tokens * rows];
        kernel(&w, &x, n_tokens, &mut out).unwrap();
        assert_products(&out, &reference(&w, &x));
    }
}

/// Large enough that several threads, panels and tiles of tokens take part.
#[test]
fn does_not_depend_on_the_number_of_threads_or_on_the_tokens_beside() {
    for activations in [Activations::F32, Activations::Rounded] {
        for format in [Format::Q4K, Format::Q8_0] {
            does_not_depend_on_them(format, activations);
        }
    }
}

fn does_not_depend_on_them(format: Format, activations: Activations) {
    // More tokens than are kept until they are finished.
    let (rows, cols, n_tokens) = (517, 1024, 110);
    let bytes = weights(format, 1, rows * cols);
    let w = Matrix::new(format, rows, cols, &bytes).unwrap();
    let w = w.with_activations(activations);
    let gate_up = GateUpWeights { gate: w, up: w };
    let x = numbers(2, n_tokens * cols);
    let run = |threads: usize, x: &[f32]| {
        let n_tokens = x.len() / cols;
        on_threads(threads, || {
            let mut out = [
                vec![f32::NAN; n_tokens * rows],
                vec![f32::NAN; n_tokens * rows],
            ];
            gemm(&w, x, n_tokens, &mut out[0]).unwrap();
            gate_up_projection(&gate_up, Activation::Silu, x, n_tokens, &mut out[1]).unwrap();
            out
        })
    };
    let all = run(1, &x);
    assert_products(&all[0], &reference(&w, &x));
    assert!(all == run(2, &x) && all == run(5, &x));
    for (t, threads) in [(0, 1), (33, 2), (109, 3)] {
        let alone = run(threads, &x[t * cols..][..cols]);
        for (alone, all) in alone.iter().zip(&all) {
            assert_eq!(alone[..], all[t * rows..][..rows]);
        }
    }
}

/// ggml's own dot products of blocks that it quantised (golden/quant/manifest.json, its AVX-512
/// build). It adds in another order, so the last bits differ.
#[test]
fn products_with_rounded_activations_are_ggmls() {
    let x = common::golden_f32("quant/act.src.f32");
    for (format, ggml) in [
        (Format::Q4_0, -14.035554885864258),
        (Format::Q5_0, -14.888538360595703),
        (Format::Q8_0, -17.33348846435547),
        (Format::Q4K, -14.762598037719727),
        (Format::Q5K, -12.070592880249023),
        (Format::Q6K, -11.464810371398926),
    ] {
        let blocks = common::golden(&format!("quant/{format}.syn.raw"));
        let row = &blocks[..format.bytes_for(x.len()).unwrap()];
        let w = Matrix::new(format, 1, x.len(), row).unwrap();
        let mut y = [f32::NAN];
        gemv(&w, &x, &mut y).unwrap();
        let off = (f64::from(y[0]) / ggml - 1.0).abs();
        assert!(off < 3e-7, "{format}: {} for {ggml}, {off:e} off", y[0]);
    }
}
