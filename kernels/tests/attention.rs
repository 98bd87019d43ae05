//! Attention and its cache against the formula: a golden file of numpy, and random shapes.

mod common;
mod golden_attention;

use std::num::NonZeroUsize;

use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::kv_cache::{KvCache, kv_cache_write};
use brick_kernels::softmax::softmax;
use brick_runtime::contract::{self, Fault, Policy};
use common::{assert_close, numbers, on_threads};
use golden_attention::{POSITIONS, TOKENS, filled, golden};
use proptest::prelude::*;

fn run(config: &AttentionConfig, cache: &KvCache, first_pos: usize, q: &[f32]) -> Vec<f32> {
    let n_tokens = q.len() / (config.n_heads * cache.head_dim());
    let mut out = vec![f32::NAN; q.len()];
    attention(config, cache, 1, first_pos, n_tokens, q, &mut out).unwrap();
    out
}

#[test]
fn matches_numpy_with_and_without_a_window() {
    let golden = golden();
    for (config, expected) in &golden.outputs {
        let expected: Vec<f64> = expected.iter().map(|&x| x.into()).collect();
        let out = run(config, &golden.cache, POSITIONS - TOKENS, &golden.q);
        assert_close(&out, &expected, 2e-6);
    }
}

proptest! {
    #[test]
    fn matches_the_formula_for_any_shape(
        (n_kv_heads, group) in (1usize..4, 1usize..11),
        dim in 1usize..70,
        (first_pos, n_tokens) in (0usize..150, 1usize..6),
        window in prop_oneof![Just(usize::MAX), 1usize..160],
        scale in 0.01f32..4.0,
        seed: u64,
    ) {
        let (n_heads, n) = (n_kv_heads * group, first_pos + n_tokens);
        let q = numbers(seed, n_tokens * n_heads * dim);
        let k = numbers(seed ^ 1, n * n_kv_heads * dim);
        let v = numbers(seed ^ 2, n * n_kv_heads * dim);
        let config = AttentionConfig { n_heads, scale, window: NonZeroUsize::new(window) };
        let cache = filled(n_kv_heads, dim, &k, &v);
        let out = run(&config, &cache, first_pos, &q);
        let expected = common::attention(
            &q, &k, &v, (n_heads, n_kv_heads, dim), scale, window, first_pos,
        );
        // A score of size s has an error of about s * 1e-6, and so has its exponential.
        assert_close(&out, &expected, 1e-5 * f64::from(1.0 + scale * dim as f32 / 3.0));

        // One token at a time gives the same bits.
        for (t, q) in q.chunks_exact(n_heads * dim).enumerate() {
            let alone = run(&config, &cache, first_pos + t, q);
            prop_assert_eq!(&alone[..], &out[t * n_heads * dim..][..n_heads * dim]);
        }
    }

    #[test]
    fn softmax_is_its_formula(cols in 1usize..40, rows in 1usize..4, size in 0.1f32..300.0, seed: u64) {
        let x: Vec<f32> = numbers(seed, rows * cols).iter().map(|v| v * size).collect();
        let mut out = x.clone();
        softmax(&mut out, cols).unwrap();
        let expected = x.chunks_exact(cols).flat_map(|row| {
            let max = row.iter().copied().fold(f32::MIN, f32::max);
            let exps = row.iter().map(move |&v| (f64::from(v) - f64::from(max)).exp());
            let sum: f64 = exps.clone().sum();
            exps.map(move |e| e / sum)
        });
        assert_close(&out, &expected.collect::<Vec<_>>(), 5e-6);
    }
}

#[test]
fn scores_too_large_for_an_exponential_do_not_overflow() {
    let (dim, n) = (4, 130);
    let mut k = vec![0.0; n * dim];
    k[77 * dim] = 1e4;
    let v = numbers(5, n * dim);
    let config = AttentionConfig {
        n_heads: 1,
        scale: 1.0,
        window: None,
    };
    let out = run(
        &config,
        &filled(1, dim, &k, &v),
        n - 1,
        &[1.0, 0.0, 0.0, 0.0],
    );
    assert_eq!(out, v[77 * dim..][..dim]);
}

#[test]
fn does_not_depend_on_the_number_of_threads() {
    let (n, heads, dim) = (300, 8, 64);
    let kv = numbers(1, n * 2 * dim);
    let q = numbers(2, n * heads * dim);
    let cache = filled(2, dim, &kv, &kv);
    let config = AttentionConfig {
        n_heads: heads,
        scale: 0.125,
        window: NonZeroUsize::new(100),
    };
    let outs = [1, 2, 5].map(|threads| on_threads(threads, || run(&config, &cache, 0, &q)));
    assert!(outs[0] == outs[1] && outs[1] == outs[2]);
}

/// Spans of one token's positions are gathered by different threads, and merged: what one thread gets
/// that goes through them all, for the token alone and among others.
#[test]
fn threads_that_share_one_token_get_what_one_gets() {
    let (n, heads, kv_heads, dim) = (900, 4, 2, 64);
    let (k, v) = (
        numbers(1, n * kv_heads * dim),
        numbers(2, n * kv_heads * dim),
    );
    let q = numbers(3, n * heads * dim);
    let cache = filled(kv_heads, dim, &k, &v);
    for window in [None, NonZeroUsize::new(300)] {
        let config = AttentionConfig {
            n_heads: heads,
            scale: 4.0,
            window,
        };
        let all = run(&config, &cache, 0, &q);
        for pos in [0, 255, 256, 257, 511, 700, 899] {
            let row = pos * heads * dim..(pos + 1) * heads * dim;
            for threads in [1, 2, 3] {
                let one = on_threads(threads, || run(&config, &cache, pos, &q[row.clone()]));
                assert!(
                    one == all[row.clone()],
                    "{window:?}, {pos}, {threads} threads"
                );
            }
        }
        let pos = n - 1;
        let last = &q[pos * heads * dim..];
        let window = window.map_or(usize::MAX, NonZeroUsize::get);
        let expected = common::attention(last, &k, &v, (heads, kv_heads, dim), 4.0, window, pos);
        assert_close(&all[pos * heads * dim..], &expected, 1e-5);
    }
}

#[test]
fn a_nan_shows_in_the_heads_that_see_it_and_in_no_other() {
    let (n, heads, dim) = (70, 2, 8);
    let mut k = numbers(1, n * 2 * dim);
    k[(3 * 2 + 1) * dim] = f32::NAN; // position 3, key-value head 1
    let cache = filled(2, dim, &k, &numbers(2, n * 2 * dim));
    let config = AttentionConfig {
        n_heads: heads,
        scale: 1.0,
        window: None,
    };
    // The brick's contract would stop here, where it is compiled in.
    contract::set_policy(Policy::Record);
    let out = run(&config, &cache, n - 1, &numbers(3, heads * dim));
    assert!(out[..dim].iter().all(|v| v.is_finite()));
    assert!(out[dim..].iter().all(|v| v.is_nan()));
    if cfg!(feature = "visualization") {
        let [violation] = &contract::violations().kept[..] else {
            panic!("the contract saw nothing");
        };
        assert_eq!(violation.brick.name, "AttentionScore");
        assert!(
            matches!(&violation.fault, Fault::Number { tensor, index, .. }
            if tensor == "out" && *index == dim)
        );
    }
}

#[test]
fn flops_count_what_is_seen() {
    for window in [1, 5, 7, 100] {
        for (first, n) in [(0, 1), (0, 20), (3, 4), (6, 9), (50, 2)] {
            let config = AttentionConfig {
                n_heads: 3,
                scale: 1.0,
                window: NonZeroUsize::new(window),
            };
            let seen: usize = (first..first + n).map(|pos| window.min(pos + 1)).sum();
            assert_eq!(
                config.flops(10, first, n),
                seen * 4 * 3 * 10,
                "{window} {first} {n}"
            );
        }
    }
    let config = AttentionConfig {
        n_heads: 3,
        scale: 1.0,
        window: None,
    };
    assert_eq!(config.flops(8, usize::MAX, usize::MAX), 0); // saturated, both ends alike
}

#[test]
fn the_cache_gives_back_what_was_written_and_forgets_what_was_cut_off() {
    let (heads, dim) = (2, 3);
    let mut cache = KvCache::new(2, heads, dim, 5).unwrap();
    assert!(cache.is_empty());
    let k = numbers(1, 4 * heads * dim);
    let v = numbers(2, 4 * heads * dim);
    kv_cache_write(&mut cache, 0, 0, &k[..6], &v[..6]).unwrap();
    kv_cache_write(&mut cache, 0, 1, &k[6..], &v[6..]).unwrap();
    for head in 0..heads {
        let of_head = |x: &[f32]| -> Vec<f32> {
            x.chunks(dim)
                .skip(head)
                .step_by(heads)
                .flatten()
                .copied()
                .collect()
        };
        assert_eq!(cache.keys(0, head).unwrap().to_f32(), of_head(&k));
        assert_eq!(cache.values(0, head).unwrap().to_f32(), of_head(&v));
        assert!(cache.keys(1, head).unwrap().positions().is_empty());
    }
    cache.truncate(2);
    assert_eq!((cache.len(0), cache.len(1)), (2, 0));
    assert_eq!(
        cache.keys(0, 1).unwrap().to_f32(),
        [&k[3..6], &k[9..12]].concat()
    );
    // A rewrite of earlier positions forgets the later ones.
    kv_cache_write(&mut cache, 0, 0, &v[..6], &k[..6]).unwrap();
    assert_eq!(cache.len(0), 1);
    assert_eq!(cache.keys(0, 0).unwrap().to_f32(), &v[..3]);
    cache.truncate(0);
    assert!(cache.is_empty());
}
