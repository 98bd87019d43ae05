//! The cache's formats and windows: what attention reads from them is what the plain cache holds.

mod common;

use std::num::NonZeroUsize;

use brick_kernels::KernelError;
use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::attention_weights::attention_weights;
use brick_kernels::kv_cache::{KvCache, KvFormat, KvLayout, kv_cache_write};
use brick_runtime::contract::{self, Policy};
use common::numbers;
use proptest::prelude::*;

const HEADS: usize = 2;
const DIM: usize = 5;
const ROW: usize = HEADS * DIM;

fn layout(windows: &[Option<NonZeroUsize>], capacity: usize, max_batch: usize) -> KvLayout<'_> {
    KvLayout {
        windows,
        n_kv_heads: HEADS,
        head_dim: DIM,
        capacity,
        max_batch,
        format: KvFormat::F32,
    }
}

fn config(window: Option<NonZeroUsize>) -> AttentionConfig {
    AttentionConfig {
        n_heads: 2 * HEADS,
        scale: 0.7,
        window,
    }
}

proptest! {
    /// Batches of any size through a cache that keeps its window alone, beside one that keeps all.
    #[test]
    fn a_window_keeps_what_its_queries_see(
        window in 1usize..40,
        max_batch in 1usize..30,
        batches in prop::collection::vec(1usize..30, 1..12),
        seed: u64,
    ) {
        let window = NonZeroUsize::new(window);
        let batches: Vec<usize> = batches.into_iter().map(|n| n.min(max_batch)).collect();
        let total = batches.iter().sum();
        let windows = [None, window];
        let mut narrow = KvCache::with_layout(&layout(&windows, total, max_batch)).unwrap();
        let mut plain = KvCache::new(2, HEADS, DIM, total).unwrap();
        prop_assert!(narrow.reserved_bytes() <= plain.reserved_bytes());
        let (k, v) = (numbers(seed, total * ROW), numbers(!seed, total * ROW));
        let q = numbers(seed ^ 1, total * 2 * ROW);
        let mut pos = 0;
        for n in batches {
            let elems = pos * ROW..(pos + n) * ROW;
            for (layer, &window) in windows.iter().enumerate() {
                for cache in [&mut narrow, &mut plain] {
                    kv_cache_write(cache, layer, pos, &k[elems.clone()], &v[elems.clone()]).unwrap();
                }
                let config = config(window);
                let q = &q[2 * elems.start..2 * elems.end];
                let outs = [&narrow, &plain].map(|cache| {
                    let mut out = vec![f32::NAN; q.len()];
                    attention(&config, cache, layer, pos, n, q, &mut out).unwrap();
                    out
                });
                prop_assert_eq!(&outs[0], &outs[1]);
            }
            pos += n;
            let kept = narrow.kept(1);
            prop_assert_eq!((narrow.len(1), kept.end), (pos, pos));
            prop_assert!(kept.len() >= pos.min(window.unwrap().get()));
            let rows = narrow.keys(1, 1).unwrap();
            prop_assert_eq!(rows.positions(), kept.clone());
            let whole = plain.keys(1, 1).unwrap().to_f32();
            prop_assert_eq!(&rows.to_f32()[..], &whole[kept.start * DIM..]);
        }
    }

    /// Rounded by `half` one by one: what the cache keeps, and what attention computes with.
    #[test]
    fn halves_are_the_rounded_numbers(n in 1usize..150, scale in 1e-6f32..1e4, seed: u64) {
        let scaled = |seed, n| -> Vec<f32> { numbers(seed, n).iter().map(|x| x * scale).collect() };
        let (k, v) = (scaled(seed, n * ROW), scaled(!seed, n * ROW));
        let rounded = |x: &[f32]| -> Vec<f32> {
            x.iter().map(|&x| half::f16::from_f32_const(x).to_f32_const()).collect()
        };
        let halves = KvLayout { format: KvFormat::F16, ..layout(&[None], n, n) };
        let mut halves = KvCache::with_layout(&halves).unwrap();
        kv_cache_write(&mut halves, 0, 0, &k, &v).unwrap();
        let mut plain = KvCache::new(1, HEADS, DIM, n).unwrap();
        kv_cache_write(&mut plain, 0, 0, &rounded(&k), &rounded(&v)).unwrap();
        prop_assert_eq!(2 * halves.reserved_bytes(), plain.reserved_bytes());
        for head in 0..HEADS {
            let (ours, theirs) = (halves.keys(0, head).unwrap(), plain.keys(0, head).unwrap());
            prop_assert_eq!(ours.to_f32(), theirs.to_f32());
        }
        let q: Vec<f32> = numbers(seed ^ 1, n * 2 * ROW).iter().map(|q| q / scale).collect();
        let config = config(NonZeroUsize::new(70));
        let outs = [&halves, &plain].map(|cache| {
            let mut out = vec![f32::NAN; q.len()];
            attention(&config, cache, 0, 0, n, &q, &mut out).unwrap();
            let last = config.visible(n - 1).len();
            let mut weights = vec![f32::NAN; config.n_heads * last];
            attention_weights(&config, cache, 0, n - 1, &q[(n - 1) * 2 * ROW..], &mut weights).unwrap();
            (out, weights)
        });
        prop_assert_eq!(&outs[0], &outs[1]);
    }
}

#[test]
fn what_a_half_cannot_hold_is_an_infinity_and_attention_says_so() {
    let layout = KvLayout {
        format: KvFormat::F16,
        ..layout(&[None], 2, 2)
    };
    let mut cache = KvCache::with_layout(&layout).unwrap();
    let mut v = vec![1.0; 2 * ROW];
    v[ROW] = 65520.0; // the least number that rounds to no finite half
    v[1] = 65519.0; // the greatest that does
    kv_cache_write(&mut cache, 0, 0, &[0.0; 2 * ROW], &v).unwrap();
    let values = cache.values(0, 0).unwrap().to_f32();
    assert_eq!((values[1], values[DIM]), (65504.0, f32::INFINITY));
    contract::set_policy(Policy::Record);
    let mut out = [0.0; 2 * ROW];
    attention(&config(None), &cache, 0, 1, 1, &[0.5; 2 * ROW], &mut out).unwrap();
    assert_eq!(out[0], f32::INFINITY);
    assert!(out[1..DIM].iter().all(|x| x.is_finite()));
}

#[test]
fn what_a_window_left_behind_is_an_error() {
    let windows = [NonZeroUsize::new(3)];
    let mut cache = KvCache::with_layout(&layout(&windows, 100, 2)).unwrap();
    // 2 positions seen before a token's own, and room for 3 more.
    assert_eq!(cache.reserved_bytes(), 5 * cache.position_bytes());
    let x = [0.5; 10 * ROW];
    let write = |cache: &mut KvCache, pos, n: usize| {
        kv_cache_write(cache, 0, pos, &x[..n * ROW], &x[..n * ROW])
    };
    for pos in 0..6 {
        write(&mut cache, pos, 1).unwrap();
    }
    assert_eq!((cache.len(0), cache.kept(0)), (6, 3..6));
    let left_behind = |position, kept| {
        Err(KernelError::LeftBehind {
            kernel: "kv_cache_write",
            argument: "first_pos",
            position,
            kept,
        })
    };
    assert_eq!(write(&mut cache, 4, 1), left_behind(2, 3));
    assert_eq!((cache.len(0), cache.kept(0)), (6, 3..6), "as it was");
    let Err(KernelError::OutOfRange {
        argument, limit, ..
    }) = write(&mut cache, 6, 4)
    else {
        panic!("more than the room for one batch was accepted");
    };
    assert_eq!((argument, limit), ("n_tokens", 3));
    let mut out = [0.0; 2 * ROW];
    let seen = attention(
        &config(windows[0]),
        &cache,
        0,
        4,
        1,
        &x[..2 * ROW],
        &mut out,
    );
    assert!(matches!(
        seen,
        Err(KernelError::LeftBehind { position: 2, .. })
    ));
    let mut weights = [0.0; 12];
    let seen = attention_weights(
        &config(windows[0]),
        &cache,
        0,
        4,
        &x[..2 * ROW],
        &mut weights,
    );
    assert!(matches!(
        seen,
        Err(KernelError::LeftBehind { position: 2, .. })
    ));
    write(&mut cache, 5, 1).unwrap();
    cache.truncate(0);
    assert!(cache.is_empty());
    write(&mut cache, 0, 2).unwrap();
}
