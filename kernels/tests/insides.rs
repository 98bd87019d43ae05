//! What diagnosis asks of kernels: attention's weights, and activations rounded to 8 bits.

mod common;
mod golden_attention;

use std::num::NonZeroUsize;

use brick_kernels::KernelError;
use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::attention_weights::attention_weights;
use brick_kernels::kv_cache::KvCache;
use brick_kernels::quant::{ActivationFormat, Format, round_activations};
use brick_runtime::trace::QuantError;
use common::{assert_close, dot, golden, golden_f32, numbers};
use golden_attention::{DIM, HEADS, POSITIONS, TOKENS, filled};
use proptest::prelude::*;

/// The weights of the token at `pos`, and what they make of the values, `[n_heads, dim]`.
fn weighted(config: &AttentionConfig, cache: &KvCache, pos: usize, q: &[f32]) -> Vec<f64> {
    let (visible, dim) = (config.visible(pos), cache.head_dim());
    let mut weights = vec![f32::NAN; config.n_heads * visible.len()];
    attention_weights(config, cache, 1, pos, q, &mut weights).unwrap();
    let group = config.n_heads / cache.n_kv_heads();
    let mut out = Vec::new();
    for (head, weights) in weights.chunks_exact(visible.len()).enumerate() {
        let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        assert!((sum - 1.0).abs() < 1e-5, "head {head} sums to {sum}");
        let values = cache.values(1, head / group).unwrap().to_f32();
        for column in 0..dim {
            let seen = visible.clone().map(|p| values[p * dim + column]);
            out.push(dot(weights, &seen.collect::<Vec<_>>()).0);
        }
    }
    out
}

/// Golden queries, keys, values and outputs of numpy: weights times values are the outputs.
#[test]
fn weights_times_values_are_the_outputs_of_numpy() {
    let golden = golden_attention::golden();
    for (config, expected) in &golden.outputs {
        for token in 0..TOKENS {
            let row = token * HEADS * DIM..(token + 1) * HEADS * DIM;
            let pos = POSITIONS - TOKENS + token;
            let out = weighted(config, &golden.cache, pos, &golden.q[row.clone()]);
            assert_close(&expected[row], &out, 5e-6);
        }
    }
}

/// Golden weights of numpy, which are what they are and not only what they sum to.
#[test]
fn weights_are_those_of_numpy() {
    let inputs = golden_attention::golden();
    let file = golden_f32("attention_weights.f32");
    let mut rest = &file[..];
    for (config, _) in &inputs.outputs {
        let seen = config.window.map_or(POSITIONS, NonZeroUsize::get);
        let mut weights = vec![0.0; HEADS * seen];
        let q = &inputs.q[(TOKENS - 1) * HEADS * DIM..];
        attention_weights(config, &inputs.cache, 1, POSITIONS - 1, q, &mut weights).unwrap();
        let expected = rest.split_off(..HEADS * seen).unwrap();
        let expected: Vec<f64> = expected.iter().map(|&w| w.into()).collect();
        assert_close(&weights, &expected, 1e-6);
    }
    assert!(rest.is_empty());
}

proptest! {
    #[test]
    fn weights_times_values_are_what_attention_gives(
        (n_kv_heads, group) in (1usize..4, 1usize..5),
        dim in 1usize..40,
        pos in 0usize..150,
        window in prop_oneof![Just(usize::MAX), 1usize..160],
        seed: u64,
    ) {
        let n_heads = n_kv_heads * group;
        let q = numbers(seed, n_heads * dim);
        let k = numbers(seed ^ 1, (pos + 1) * n_kv_heads * dim);
        let v = numbers(seed ^ 2, (pos + 1) * n_kv_heads * dim);
        let config = AttentionConfig { n_heads, scale: 0.7, window: NonZeroUsize::new(window) };
        let cache = filled(n_kv_heads, dim, &k, &v);
        let mut out = vec![0.0; q.len()];
        attention(&config, &cache, 1, pos, 1, &q, &mut out).unwrap();
        assert_close(&out, &weighted(&config, &cache, pos, &q), 2e-5);
    }
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let cache = filled(2, 4, &[0.0; 24], &[0.0; 24]);
    let config = AttentionConfig {
        n_heads: 4,
        scale: 1.0,
        window: None,
    };
    let call = |config: &AttentionConfig, layer, pos, q: usize, weights: usize| {
        let (q, mut weights) = (vec![0.0; q], vec![0.0; weights]);
        match attention_weights(config, &cache, layer, pos, &q, &mut weights) {
            Ok(()) => "",
            Err(
                KernelError::Shape { argument, .. }
                | KernelError::NotMultiple { argument, .. }
                | KernelError::Zero { argument, .. }
                | KernelError::OutOfRange { argument, .. },
            ) => argument,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(call(&config, 1, 2, 16, 12), "");
    assert_eq!(call(&config, 2, 2, 16, 12), "layer");
    assert_eq!(call(&config, 1, 3, 16, 16), "pos");
    assert_eq!(call(&config, 0, 0, 16, 4), "pos");
    assert_eq!(call(&config, 1, 2, 15, 12), "q.len()");
    assert_eq!(call(&config, 1, 2, 16, 11), "weights.len()");
    let heads = |n_heads| AttentionConfig { n_heads, ..config };
    assert_eq!(call(&heads(0), 1, 2, 0, 0), "config.n_heads");
    assert_eq!(call(&heads(3), 1, 2, 12, 9), "config.n_heads");
}

/// ggml's blocks of the same activations, taken apart here.
#[test]
fn rounded_activations_are_what_ggmls_blocks_hold() {
    let x = golden_f32("quant/act.src.f32");
    let mut out = vec![f32::NAN; x.len()];

    let blocks = golden("quant/act.q8_0.raw");
    let expected = blocks.as_chunks::<34>().0.iter().flat_map(|block| {
        let d = half::f16::from_le_bytes([block[0], block[1]]).to_f32();
        block[2..].iter().map(move |&q| d * f32::from(q as i8))
    });
    round_activations(ActivationFormat::Q8_0, &x, &mut out).unwrap();
    assert_eq!(out, expected.collect::<Vec<_>>());

    let blocks = golden("quant/act.q8_K.raw");
    let expected = blocks.as_chunks::<292>().0.iter().flat_map(|block| {
        let d = f32::from_le_bytes(*block.first_chunk().unwrap());
        block[4..260].iter().map(move |&q| d * f32::from(q as i8))
    });
    round_activations(ActivationFormat::Q8K, &x, &mut out).unwrap();
    assert_eq!(out, expected.collect::<Vec<_>>());
}

/// More than are rounded at a time, and not a multiple of that.
#[test]
fn any_number_of_blocks() {
    for format in ActivationFormat::ALL {
        let block = format.block_elems();
        let x = numbers(7, 37 * block);
        let mut whole = vec![0.0; x.len()];
        round_activations(format, &x, &mut whole).unwrap();
        for (x, whole) in x.chunks_exact(block).zip(whole.chunks_exact(block)) {
            let mut out = vec![0.0; block];
            round_activations(format, x, &mut out).unwrap();
            assert_eq!(out, whole);
        }
        assert!(round_activations(format, &x[1..], &mut whole[1..]).is_err());
        assert!(round_activations(format, &x, &mut whole[1..]).is_err());
        assert!(round_activations(format, &[], &mut []).is_ok());
    }
}

#[test]
fn what_dot_products_take_is_what_ggml_says() {
    for (weights, activations) in [
        (Format::Q4K, Some("Q8_K")),
        (Format::Q6K, Some("Q8_K")),
        (Format::Q5_0, Some("Q8_0")),
        (Format::Q8_0, Some("Q8_0")),
        (Format::Q4_1, Some("Q8_0")),
        (Format::F16, None),
    ] {
        let found = ActivationFormat::for_weights(weights);
        assert_eq!(found.map(ActivationFormat::name), activations, "{weights}");
    }
}

/// The figures of numpy (golden/quant/errors.py) for blocks that ggml quantised.
#[test]
fn quantisation_errors_are_those_of_numpy() {
    for (kind, [mse, max_abs, cosine, snr_db]) in [
        (
            "Q4_0",
            [
                0.0005261410488800329,
                0.1282256692647934,
                0.9980361855346207,
                24.06286627664738,
            ],
        ),
        (
            "Q4_1",
            [
                0.0009377662908311603,
                0.15741881728172302,
                0.9969591331370982,
                22.1335376819735,
            ],
        ),
        (
            "Q4_K",
            [
                0.00033673785504590077,
                0.08275476843118668,
                0.9986633426092054,
                25.728387585733962,
            ],
        ),
        (
            "Q5_0",
            [
                0.0003220480398384644,
                0.08909481018781662,
                0.9986753161844201,
                25.769743566219255,
            ],
        ),
        (
            "Q5_K",
            [
                5.054346690230118e-05,
                0.03430411405861378,
                0.9997460054455028,
                32.93847705507599,
            ],
        ),
        (
            "Q6_K",
            [
                1.8234143314151354e-05,
                0.0261206217110157,
                0.9999025908159404,
                37.09914606275205,
            ],
        ),
        (
            "Q8_0",
            [
                5.935521530171101e-06,
                0.015914559364318848,
                0.99997602213415,
                43.187072094503584,
            ],
        ),
    ] {
        let mut error = QuantError::default();
        let source = golden_f32(&format!("quant/{kind}.syn.src.f32"));
        let kept = golden_f32(&format!("quant/{kind}.syn.deq.f32"));
        for (source, kept) in source.chunks(100).zip(kept.chunks(100)) {
            error.add(source, kept).unwrap();
        }
        assert_eq!((error.compared(), error.not_finite()), (1024, 0));
        for (found, expected) in [
            (error.mse(), mse),
            (error.max_abs(), max_abs),
            (error.cosine(), cosine),
            (error.snr_db(), snr_db),
        ] {
            let found = found.value().unwrap();
            assert!(
                (found / expected - 1.0).abs() < 1e-12,
                "{kind}: {found} {expected}"
            );
        }
    }
}
