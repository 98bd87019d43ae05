//! Norms, rotations, activations and residual arithmetic against their formulas.

mod common;

use brick_kernels::KernelError;
use brick_kernels::activation::{Activation, activation, gated_activation};
use brick_kernels::lm_head::logit_softcap;
use brick_kernels::residual::{residual_add, scale};
use brick_kernels::residual_norm::{post_norm_residual, residual_norm};
use brick_kernels::rms_norm::{head_norm, rms_norm};
use brick_kernels::rope::{Rope, RopeAngles, RopeConfig, RopePairing, rope_angles, rope_embedding};
use common::{assert_close, golden_f32, numbers, on_threads};
use proptest::prelude::*;

fn plain_rope(pairing: RopePairing, head_dim: usize) -> RopeConfig<'static> {
    RopeConfig {
        pairing,
        head_dim,
        n_dims: head_dim,
        base: 10_000.0,
        freq_scale: 1.0,
        freq_factors: None,
    }
}

/// Rotates the heads of tokens that follow each other from `first_pos` on.
fn rotate(rope: &Rope, first_pos: usize, n_tokens: usize, n_heads: usize, x: &mut [f32]) {
    let mut angles = RopeAngles::default();
    rope_angles(rope, first_pos, n_tokens, &mut angles).unwrap();
    rope_embedding(rope, &angles, n_heads, x).unwrap();
}

#[test]
fn rope_matches_numpy_in_both_pairings() {
    let (t, h, d, n_dims) = (5, 3, 24, 16);
    let file = golden_f32("rope.f32");
    let mut rest = &file[..];
    let mut take = |n| rest.split_off(..n).unwrap();
    let (x, factors) = (take(t * h * d), take(n_dims / 2));
    for pairing in [RopePairing::Neox, RopePairing::Norm] {
        let expected: Vec<f64> = take(t * h * d).iter().map(|&x| x.into()).collect();
        let config = RopeConfig {
            n_dims,
            freq_scale: 0.25,
            freq_factors: Some(factors),
            ..plain_rope(pairing, d)
        };
        let mut out = x.to_vec();
        rotate(&Rope::new(&config).unwrap(), 1000, t, h, &mut out);
        assert_close(&out, &expected, 3e-7);
    }
}

/// Rotating by p and then scoring against a rotation by p + n depends on n alone.
#[test]
fn rotated_scores_depend_on_the_distance_alone() {
    for pairing in [RopePairing::Neox, RopePairing::Norm] {
        let rope = Rope::new(&plain_rope(pairing, 64)).unwrap();
        let score = |pos| {
            let (mut q, mut k) = (numbers(1, 64), numbers(2, 64));
            rotate(&rope, pos + 9, 1, 1, &mut q);
            rotate(&rope, pos, 1, 1, &mut k);
            common::dot(&q, &k).0
        };
        for pos in [1, 500, 100_000] {
            assert!((score(pos) - score(0)).abs() < 1e-5, "{pairing:?} at {pos}");
        }
    }
}

#[test]
fn rope_of_many_tokens_is_rope_of_each_on_any_number_of_threads() {
    let (n, heads, dim) = (300, 2, 128);
    let rope = Rope::new(&plain_rope(RopePairing::Neox, dim)).unwrap();
    let x = numbers(1, n * heads * dim);
    let mut expected = x.clone();
    for (t, x) in expected.chunks_exact_mut(heads * dim).enumerate() {
        rotate(&rope, 40 + t, 1, heads, x);
    }
    for threads in [1, 3] {
        let all = on_threads(threads, || {
            let mut all = x.clone();
            rotate(&rope, 40, n, heads, &mut all);
            all
        });
        assert!(all == expected, "{threads} threads");
    }
}

proptest! {
    #[test]
    fn norms_are_their_formula(
        dim in 1usize..700, rows in 1usize..5, size in 1e-3f32..1e3, eps in 1e-7f32..1e-3, seed: u64,
    ) {
        let x: Vec<f32> = numbers(seed, rows * dim).iter().map(|v| v * size).collect();
        let weight = numbers(seed ^ 1, dim);
        let expected = x.chunks_exact(dim).flat_map(|row| {
            let mean = row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / dim as f64;
            let inverse = 1.0 / (mean + f64::from(eps)).sqrt();
            row.iter().zip(&weight).map(move |(&v, &w)| f64::from(v) * inverse * f64::from(w)).collect::<Vec<_>>()
        });
        let expected: Vec<f64> = expected.collect();
        let mut out = vec![f32::NAN; x.len()];
        rms_norm(&x, &weight, eps, &mut out).unwrap();
        assert_close(&out, &expected, 3e-6);
        let mut in_place = x.clone();
        head_norm(&mut in_place, &weight, eps).unwrap();
        prop_assert_eq!(in_place, out);
    }

    /// To the last bit, everything that a trace looks at included, on any number of threads.
    #[test]
    fn fused_kernels_are_the_plain_ones_in_a_row(
        dim in 1usize..700, rows in prop_oneof![1usize..5, 300usize..310], has_post: bool, seed: u64,
    ) {
        let [x, y] = [0, 1].map(|i| numbers(seed ^ i, rows * dim));
        let [post, weight] = [2, 3].map(|i| numbers(seed ^ i, dim));
        let (mut sum, mut back, mut normed) = (x.clone(), y.clone(), vec![f32::NAN; x.len()]);
        if has_post {
            rms_norm(&y, &post, 1e-6, &mut back).unwrap();
        }
        residual_add(&mut sum, &back).unwrap();
        rms_norm(&sum, &weight, 1e-6, &mut normed).unwrap();
        for threads in [1, 3] {
            let (mut fused, mut fused_back) = (x.clone(), y.clone());
            let mut out = vec![f32::NAN; x.len()];
            let after = has_post.then_some(&post[..]);
            on(threads, || residual_norm(&mut fused, &mut fused_back, after, &weight, 1e-6, &mut out));
            prop_assert!(fused == sum && fused_back == back && out == normed, "{threads} threads");
            if has_post {
                let (mut fused, mut fused_back) = (x.clone(), y.clone());
                on(threads, || post_norm_residual(&mut fused, &mut fused_back, &post, 1e-6));
                prop_assert!(fused == sum && fused_back == back, "{threads} threads");
            }
        }
    }

    #[test]
    fn residual_arithmetic(x in prop::collection::vec(-1e6f32..1e6, 0..50), factor in -9f32..9.0) {
        let y = numbers(1, x.len());
        let mut sum = x.clone();
        residual_add(&mut sum, &y).unwrap();
        prop_assert!(sum.iter().copied().eq(x.iter().zip(&y).map(|(a, b)| a + b)));
        let mut scaled = x.clone();
        scale(&mut scaled, factor);
        prop_assert!(scaled.iter().copied().eq(x.iter().map(|a| a * factor)));
    }
}

/// Runs a kernel in a pool of its own.
fn on(threads: usize, kernel: impl FnOnce() -> Result<(), KernelError> + Send) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.unwrap().install(kernel).unwrap();
}

#[test]
fn norms_of_many_rows_do_not_depend_on_the_number_of_threads() {
    let (rows, dim) = (600, 640);
    let (x, weight) = (numbers(1, rows * dim), numbers(2, dim));
    let outs = [1, 4].map(|threads| {
        on_threads(threads, || {
            let (mut out, mut in_place) = (vec![0.0; x.len()], x.clone());
            rms_norm(&x, &weight, 1e-6, &mut out).unwrap();
            head_norm(&mut in_place, &weight, 1e-6).unwrap();
            assert!(out == in_place);
            out
        })
    });
    assert!(outs[0] == outs[1]);
}

/// The tanh form of GELU and SiLU, in `f64`, over everything from underflow to overflow.
#[test]
fn activations_are_their_formulas() {
    let x: Vec<f32> = (-4000..=4000)
        .map(|i| i as f32 / 200.0)
        .chain([-1e4, -200.0, 200.0, 1e4])
        .collect();
    let gelu = |x: f64| {
        let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
        0.5 * x * (1.0 + u.tanh())
    };
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let up = numbers(1, x.len());
    let formulas: [(Activation, &dyn Fn(f64) -> f64); 2] =
        [(Activation::GeluTanh, &gelu), (Activation::Silu, &silu)];
    for (kind, formula) in formulas {
        let expected: Vec<f64> = x.iter().map(|&x| formula(x.into())).collect();
        let mut out = x.clone();
        activation(kind, &mut out);
        for (i, (&a, &e)) in out.iter().zip(&expected).enumerate() {
            assert!(
                (f64::from(a) - e).abs() <= 5e-7 * (1.0 + e.abs()),
                "{kind:?}({}): {a}, {e}",
                x[i]
            );
        }
        let gate = x.clone();
        let mut gated = vec![f32::NAN; x.len()];
        gated_activation(kind, &gate, &up, &mut gated).unwrap();
        assert!(
            gated
                .iter()
                .copied()
                .eq(out.iter().zip(&up).map(|(a, b)| a * b))
        );
        assert!(kind.apply(f32::NAN).is_nan());
    }
    // Published values: GELU-tanh(1) = 0.841192, SiLU(1) = 0.731059.
    assert!((Activation::GeluTanh.apply(1.0) - 0.841_192).abs() < 1e-6);
    assert!((Activation::Silu.apply(1.0) - 0.731_059).abs() < 1e-6);
}

/// Against `tanh` by its definition, in `f64`.
#[test]
fn softcapped_logits_are_their_formula() {
    let cap = 30.0f32;
    let x: Vec<f32> = (-500..=500).map(|i| i as f32 / 2.0).collect();
    let mut capped = x.clone();
    logit_softcap(cap, &mut capped).unwrap();
    for (&x, &y) in x.iter().zip(&capped) {
        let (up, down) = ((f64::from(x) / 30.0).exp(), (f64::from(-x) / 30.0).exp());
        let expected = 30.0 * (up - down) / (up + down);
        assert!(
            (f64::from(y) - expected).abs() < 1e-5,
            "{x}: {y}, {expected}"
        );
    }
    for cap in [0.0, -30.0, f32::NAN, f32::INFINITY] {
        assert!(logit_softcap(cap, &mut capped).is_err());
    }
}
