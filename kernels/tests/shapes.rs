//! Every argument that can have a wrong shape, one at a time: an error that names it.

mod common;

use brick_kernels::KernelError;
use brick_kernels::activation::{Activation, gated_activation};
use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::embedding::embedding;
use brick_kernels::gemm::{gemm, gemv};
use brick_kernels::kv_cache::{KvCache, kv_cache_write};
use brick_kernels::lm_head::lm_head;
use brick_kernels::projection::{
    GateUpWeights, QkvWeights, down_projection, gate_up_projection, output_projection,
    qkv_projection,
};
use brick_kernels::quant::{BlockQ8_0, BlockQ8K, Format, Matrix, quantise_q8_0, quantise_q8_k};
use brick_kernels::residual::residual_add;
use brick_kernels::residual_norm::{post_norm_residual, residual_norm};
use brick_kernels::rms_norm::{head_norm, rms_norm};
use brick_kernels::rope::{Rope, RopeAngles, RopeConfig, RopePairing, rope_angles, rope_embedding};
use brick_kernels::softmax::softmax;
use bytemuck::Zeroable;

/// The argument that the error names.
#[track_caller]
fn named<T>(result: Result<T, KernelError>) -> &'static str {
    match result.map(|_| ()).expect_err("a wrong shape was accepted") {
        KernelError::Shape { argument, .. }
        | KernelError::NotMultiple { argument, .. }
        | KernelError::Zero { argument, .. }
        | KernelError::OutOfRange { argument, .. }
        | KernelError::Overflow { argument, .. }
        | KernelError::LeftBehind { argument, .. }
        | KernelError::Parameter { argument, .. } => argument,
        other => panic!("{other}"),
    }
}

#[test]
fn matrices() {
    let bytes = [0u8; 68];
    assert!(Matrix::new(Format::Q8_0, 2, 32, &bytes).is_ok());
    assert_eq!(named(Matrix::new(Format::Q8_0, 0, 32, &[])), "rows");
    assert_eq!(named(Matrix::new(Format::Q8_0, 2, 0, &[])), "cols");
    assert_eq!(named(Matrix::new(Format::Q8_0, 2, 33, &bytes)), "cols");
    assert_eq!(
        named(Matrix::new(Format::Q8_0, 2, 32, &bytes[1..])),
        "bytes.len()"
    );
    assert_eq!(
        named(Matrix::new(Format::Q8_0, 1, 32, &bytes)),
        "bytes.len()"
    );
    assert_eq!(
        named(Matrix::new(Format::Q8_0, usize::MAX, 32, &bytes)),
        "rows * cols"
    );
    assert_eq!(
        named(Matrix::new(Format::F32, 1, usize::MAX, &bytes)),
        "bytes"
    );
    assert_eq!(
        named(Matrix::new(Format::F32, 1 << 31, 1 << 31, &bytes)),
        "bytes"
    );
    let matrix = Matrix::new(Format::Q8_0, 2, 32, &bytes).unwrap();
    assert_eq!(matrix.row(1).unwrap().len(), 34);
    assert_eq!(named(matrix.row(2)), "row");
    assert_eq!(named(matrix.dequantise_row(2, &mut [0.0; 32])), "row");
    assert_eq!(named(matrix.dequantise_row(0, &mut [0.0; 31])), "out.len()");
}

#[test]
fn products() {
    let values = [0.0; 6];
    let w = &Matrix::from_f32(3, 2, &values).unwrap();
    assert_eq!(named(gemv(w, &[0.0; 3], &mut [0.0; 3])), "x.len()");
    assert_eq!(named(gemv(w, &[0.0; 2], &mut [0.0; 2])), "y.len()");
    assert_eq!(named(gemm(w, &[0.0; 3], 2, &mut [0.0; 6])), "x.len()");
    assert_eq!(named(gemm(w, &[0.0; 4], 2, &mut [0.0; 5])), "y.len()");
    assert_eq!(
        named(gemm(w, &[0.0; 4], usize::MAX, &mut [0.0; 6])),
        "x.len()"
    );
    for kernel in [output_projection, down_projection] {
        assert_eq!(named(kernel(w, &[0.0; 3], 2, &mut [0.0; 6])), "x.len()");
        assert_eq!(named(kernel(w, &[0.0; 4], 2, &mut [0.0; 7])), "out.len()");
    }
    assert_eq!(named(lm_head(w, &[0.0; 5], 2, &mut [0.0; 6])), "x.len()");
    assert_eq!(
        named(lm_head(w, &[0.0; 4], 2, &mut [0.0; 3])),
        "logits.len()"
    );
    assert_eq!(gemm(w, &[], 0, &mut []), Ok(()));
}

#[test]
fn fused_projections() {
    let values = [0.0; 12];
    let matrix = |rows, cols| Matrix::from_f32(rows, cols, &values[..rows * cols]).unwrap();
    let good = QkvWeights {
        q: matrix(4, 2),
        k: matrix(3, 2),
        v: matrix(3, 2),
        q_bias: None,
        k_bias: None,
        v_bias: None,
    };
    let run = |w: &QkvWeights<'_>, [x, q, k, v]: [usize; 4]| {
        let (x, mut q) = (vec![0.0; x], vec![0.0; q]);
        qkv_projection(w, &x, 1, &mut q, &mut vec![0.0; k], &mut vec![0.0; v])
    };
    assert_eq!(run(&good, [2, 4, 3, 3]), Ok(()));
    assert_eq!(named(run(&good, [1, 4, 3, 3])), "x.len()");
    assert_eq!(named(run(&good, [2, 3, 3, 3])), "q.len()");
    assert_eq!(named(run(&good, [2, 4, 4, 3])), "k.len()");
    assert_eq!(named(run(&good, [2, 4, 3, 0])), "v.len()");
    assert_eq!(
        named(run(
            &QkvWeights {
                v: matrix(3, 1),
                ..good
            },
            [2, 4, 3, 3]
        )),
        "x.len()"
    );
    let bias = Some(&values[..2]);
    assert_eq!(
        named(run(
            &QkvWeights {
                q_bias: bias,
                ..good
            },
            [2, 4, 3, 3]
        )),
        "w.q_bias.len()"
    );
    assert_eq!(
        named(run(
            &QkvWeights {
                k_bias: bias,
                ..good
            },
            [2, 4, 3, 3]
        )),
        "w.k_bias.len()"
    );
    assert_eq!(
        named(run(
            &QkvWeights {
                v_bias: bias,
                ..good
            },
            [2, 4, 3, 3]
        )),
        "w.v_bias.len()"
    );

    let run = |gate, up, x: usize, out: usize| {
        let w = GateUpWeights { gate, up };
        gate_up_projection(&w, Activation::Silu, &vec![0.0; x], 2, &mut vec![0.0; out])
    };
    assert_eq!(run(matrix(3, 2), matrix(3, 2), 4, 6), Ok(()));
    assert_eq!(named(run(matrix(3, 2), matrix(4, 2), 4, 6)), "w.up.rows()");
    assert_eq!(named(run(matrix(3, 2), matrix(3, 1), 4, 6)), "w.up.cols()");
    assert_eq!(named(run(matrix(3, 2), matrix(3, 2), 2, 6)), "x.len()");
    assert_eq!(named(run(matrix(3, 2), matrix(3, 2), 4, 3)), "out.len()");
}

#[test]
fn caches_and_attention() {
    assert_eq!(named(KvCache::new(0, 1, 1, 1)), "n_layers");
    assert_eq!(named(KvCache::new(1, 0, 1, 1)), "n_kv_heads");
    assert_eq!(named(KvCache::new(1, 1, 0, 1)), "head_dim");
    assert_eq!(named(KvCache::new(1, 1, 1, 0)), "capacity");
    assert_eq!(named(KvCache::new(usize::MAX, 2, 1, 1)), "cache");
    let huge = KvCache::new(1, 1, 1, usize::MAX / 16);
    assert!(matches!(huge, Err(KernelError::OutOfMemory { .. })));

    let mut cache = KvCache::new(1, 2, 3, 4).unwrap();
    let x = [0.5; 30];
    let mut write =
        |layer, pos, k: usize, v: usize| kv_cache_write(&mut cache, layer, pos, &x[..k], &x[..v]);
    assert_eq!(write(0, 0, 12, 12), Ok(()));
    assert_eq!(named(write(1, 0, 6, 6)), "layer");
    assert_eq!(named(write(0, 0, 7, 7)), "k.len()");
    assert_eq!(named(write(0, 0, 6, 12)), "v.len()");
    assert_eq!(named(write(0, 3, 6, 6)), "first_pos");
    assert_eq!(named(write(0, 2, 18, 18)), "first_pos + n_tokens");
    assert_eq!(cache.len(0), 2);
    assert_eq!(named(cache.keys(1, 0)), "layer");
    assert_eq!(named(cache.values(0, 2)), "kv_head");

    let config = AttentionConfig {
        n_heads: 4,
        scale: 1.0,
        window: None,
    };
    let run = |config: &AttentionConfig, layer, pos, n, q: usize, out: usize| {
        attention(config, &cache, layer, pos, n, &x[..q], &mut vec![0.0; out])
    };
    assert_eq!(run(&config, 0, 0, 2, 24, 24), Ok(()));
    assert_eq!(run(&config, 0, 2, 0, 0, 0), Ok(()));
    assert_eq!(named(run(&config, 0, 0, 2, 12, 24)), "q.len()");
    assert_eq!(named(run(&config, 0, 0, 2, 24, 12)), "out.len()");
    assert_eq!(named(run(&config, 1, 0, 2, 24, 24)), "layer");
    assert_eq!(named(run(&config, 0, 1, 2, 24, 24)), "first_pos + n_tokens");
    assert_eq!(
        named(run(&config, 0, usize::MAX, 2, 24, 24)),
        "first_pos + n_tokens"
    );
    assert_eq!(named(run(&config, 0, 0, usize::MAX, 24, 24)), "q");
    for (n_heads, q) in [(0, 0), (3, 18)] {
        let config = AttentionConfig { n_heads, ..config };
        assert_eq!(named(run(&config, 0, 0, 2, q, q)), "config.n_heads");
    }
}

#[test]
fn rotations() {
    let good = RopeConfig {
        pairing: RopePairing::Neox,
        head_dim: 8,
        n_dims: 4,
        base: 1e4,
        freq_scale: 1.0,
        freq_factors: None,
    };
    let factors = [1.0, 0.0];
    for (name, bad) in [
        ("n_dims", RopeConfig { n_dims: 0, ..good }),
        ("n_dims", RopeConfig { n_dims: 5, ..good }),
        ("n_dims", RopeConfig { n_dims: 10, ..good }),
        ("base", RopeConfig { base: 0.0, ..good }),
        (
            "freq_scale",
            RopeConfig {
                freq_scale: f32::NAN,
                ..good
            },
        ),
        (
            "freq_factors.len()",
            RopeConfig {
                freq_factors: Some(&factors[..1]),
                ..good
            },
        ),
        (
            "freq_factors.len()",
            RopeConfig {
                freq_factors: Some(&[]),
                ..good
            },
        ),
        (
            "freq_factors",
            RopeConfig {
                freq_factors: Some(&factors),
                ..good
            },
        ),
    ] {
        assert_eq!(named(Rope::new(&bad)), name, "{bad:?}");
    }
    let rope = Rope::new(&good).unwrap();
    let mut angles = RopeAngles::default();
    let mut make = |first_pos, n| named(rope_angles(&rope, first_pos, n, &mut angles));
    assert_eq!(make(usize::MAX, 1), "first_pos + n_positions");
    assert_eq!(make(0, usize::MAX), "n_positions * n_dims");
    assert!(matches!(
        rope_angles(&rope, 0, usize::MAX / 64, &mut angles),
        Err(KernelError::OutOfMemory { .. })
    ));
    rope_angles(&rope, 7, 1, &mut angles).unwrap();
    let rotate = |n_heads, x: &mut [f32]| rope_embedding(&rope, &angles, n_heads, x);
    assert_eq!(named(rotate(0, &mut [0.0; 8])), "n_heads");
    assert_eq!(named(rotate(2, &mut [0.0; 24])), "x.len()");
    assert_eq!(
        named(rotate(usize::MAX, &mut [0.0; 8])),
        "n_heads * head_dim"
    );
    let two_tokens = named(rotate(1, &mut [0.0; 16]));
    assert_eq!(two_tokens, "x.len() / (n_heads * head_dim)");
    assert_eq!(rotate(2, &mut []), Ok(()));
    let none = RopeAngles::default();
    assert_eq!(
        named(rope_embedding(&rope, &none, 1, &mut [0.0; 8])),
        "angles"
    );
    assert_eq!(rope_embedding(&rope, &none, 1, &mut []), Ok(()));
}

#[test]
fn the_rest() {
    assert_eq!(
        named(rms_norm(&[0.0; 5], &[1.0; 2], 1e-6, &mut [0.0; 5])),
        "x.len()"
    );
    assert_eq!(
        named(rms_norm(&[0.0; 4], &[1.0; 2], 1e-6, &mut [0.0; 2])),
        "out.len()"
    );
    assert_eq!(
        named(rms_norm(&[0.0; 4], &[], 1e-6, &mut [0.0; 4])),
        "weight.len()"
    );
    assert_eq!(rms_norm(&[], &[1.0], 1e-6, &mut []), Ok(()));
    let fused = |x: usize, y: usize, post: Option<&[f32]>, dim: usize, out: usize| {
        let (mut x, mut y, mut out) = (vec![0.0; x], vec![0.0; y], vec![0.0; out]);
        residual_norm(&mut x, &mut y, post, &vec![1.0; dim], 1e-6, &mut out)
    };
    assert_eq!(named(fused(5, 5, None, 2, 5)), "x.len()");
    assert_eq!(named(fused(4, 6, None, 2, 4)), "y.len()");
    assert_eq!(named(fused(4, 4, None, 2, 6)), "out.len()");
    assert_eq!(named(fused(4, 4, Some(&[1.0; 3]), 2, 4)), "post.len()");
    assert_eq!(named(fused(4, 4, None, 0, 4)), "weight.len()");
    assert_eq!(fused(0, 0, Some(&[1.0]), 1, 0), Ok(()));
    let fused = |x: usize, y: usize, dim: usize| {
        post_norm_residual(&mut vec![0.0; x], &mut vec![0.0; y], &vec![1.0; dim], 1e-6)
    };
    assert_eq!(named(fused(5, 5, 2)), "x.len()");
    assert_eq!(named(fused(4, 6, 2)), "y.len()");
    assert_eq!(named(fused(4, 4, 0)), "weight.len()");
    assert_eq!(fused(0, 0, 1), Ok(()));
    assert_eq!(named(head_norm(&mut [0.0; 5], &[1.0; 2], 1e-6)), "x.len()");
    assert_eq!(named(head_norm(&mut [0.0; 5], &[], 1e-6)), "weight.len()");
    assert_eq!(named(softmax(&mut [0.0; 5], 2)), "x.len()");
    assert_eq!(named(softmax(&mut [0.0; 5], 0)), "cols");
    assert_eq!(named(residual_add(&mut [0.0; 2], &[0.0; 3])), "y.len()");
    let gated = |up: usize, out: usize| {
        gated_activation(
            Activation::Silu,
            &[0.0; 3],
            &vec![0.0; up],
            &mut vec![0.0; out],
        )
    };
    assert_eq!(named(gated(2, 3)), "up.len()");
    assert_eq!(named(gated(3, 4)), "out.len()");
    let values = [0.0; 6];
    let table = Matrix::from_f32(3, 2, &values).unwrap();
    assert_eq!(
        named(embedding(&table, &[0, 3], 1.0, &mut [0.0; 4])),
        "tokens"
    );
    assert_eq!(
        named(embedding(&table, &[0, 2], 1.0, &mut [0.0; 3])),
        "out.len()"
    );
    assert_eq!(
        named(quantise_q8_0(&[0.0; 33], &mut [BlockQ8_0::zeroed()])),
        "x.len()"
    );
    assert_eq!(
        named(quantise_q8_0(&[0.0; 64], &mut [BlockQ8_0::zeroed()])),
        "blocks.len()"
    );
    assert_eq!(
        named(quantise_q8_k(&[0.0; 32], &mut [BlockQ8K::zeroed()])),
        "x.len()"
    );
    assert_eq!(named(quantise_q8_k(&[0.0; 256], &mut [])), "blocks.len()");
}

#[test]
fn an_error_reads_as_a_sentence() {
    let error = residual_add(&mut [0.0; 2], &[0.0; 3]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "residual_add: `y.len()` is 3, expected 2"
    );
}
