//! What is not a product with weights.

use std::hint::black_box;
use std::num::NonZeroUsize;

use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::embedding::embedding;
use brick_kernels::kv_cache::{KvCache, kv_cache_write};
use brick_kernels::quant::{Format, Matrix};
use brick_kernels::residual_norm::residual_norm;
use brick_kernels::rms_norm::{head_norm, rms_norm};
use brick_kernels::rope::{Rope, RopeAngles, RopeConfig, RopePairing, rope_angles, rope_embedding};
use brick_kernels::sampling::{Sampler, SamplerConfig};
use brick_kernels::softmax::softmax;
use criterion::Criterion;

use super::activations;
use super::roofline::{Arithmetic, From, Roofline, Threads, Work, bench};

/// The width of the residual stream.
const EMBD: usize = 640;

/// Query heads, and the elements of one; there is one key-value head.
const HEADS: usize = 4;
const HEAD_DIM: usize = 256;

fn cache(len: usize) -> KvCache {
    let mut cache = KvCache::new(1, 1, HEAD_DIM, len).expect("a small cache");
    let kv = activations(len * HEAD_DIM);
    kv_cache_write(&mut cache, 0, 0, &kv, &kv).expect("room for it");
    cache
}

/// Four query heads of 256 on one key-value head.
pub(crate) fn attention_over_a_cache(c: &mut Criterion<Roofline>) {
    let len = 1024;
    let cache = cache(len);
    let mut group = c.benchmark_group("attention_4x256");
    for (name, first_pos, n_tokens, window) in [
        ("decode_at_1024", len - 1, 1, None),
        ("prefill_1024", 0, len, None),
        ("prefill_1024_window_512", 0, len, NonZeroUsize::new(512)),
    ] {
        let config = AttentionConfig {
            n_heads: HEADS,
            scale: 0.0625,
            window,
        };
        let q = activations(n_tokens * HEADS * HEAD_DIM);
        let mut out = vec![0.0; q.len()];
        let work = Work {
            flops: config.flops(HEAD_DIM, first_pos, n_tokens),
            bytes: cache.position_bytes() * len + 8 * q.len(),
            arithmetic: Arithmetic::F32,
            from: From::Cache,
            threads: Threads::All,
        };
        bench(&mut group, name, work, || {
            attention(
                &config,
                &cache,
                0,
                first_pos,
                n_tokens,
                black_box(&q),
                &mut out,
            )
        });
    }
}

pub(crate) fn norms(c: &mut Criterion<Roofline>) {
    let weight = activations(EMBD);
    let mut group = c.benchmark_group("norm");
    for tokens in [1, 512] {
        let n = tokens * EMBD;
        let (x, mut out) = (activations(n), vec![0.0; n]);
        let threads = if tokens == 1 {
            Threads::One
        } else {
            Threads::All
        };
        let work = Work {
            threads,
            ..Work::small(4 * n, 8 * n + 4 * EMBD)
        };
        bench(&mut group, &format!("rms_norm/{tokens}x640"), work, || {
            rms_norm(black_box(&x), &weight, 1e-6, &mut out)
        });
    }
    // In place, again and again: weights of one keep the numbers from growing or becoming subnormal.
    let ones = vec![1.0; EMBD];
    let mut x = activations(HEADS * HEAD_DIM);
    let work = Work::small(4 * x.len(), 8 * x.len() + 4 * HEAD_DIM);
    bench(&mut group, "head_norm/4x256", work, || {
        head_norm(black_box(&mut x), &ones[..HEAD_DIM], 1e-6)
    });
    let (mut x, mut y, mut out) = (vec![0.0; EMBD], activations(EMBD), vec![0.0; EMBD]);
    let work = Work::small(9 * EMBD, 28 * EMBD);
    bench(&mut group, "residual_norm/640", work, || {
        residual_norm(
            black_box(&mut x),
            &mut y,
            Some(&ones),
            &weight,
            1e-6,
            &mut out,
        )
    });
}

pub(crate) fn positions_and_cache(c: &mut Criterion<Roofline>) {
    let rope = Rope::new(&RopeConfig {
        pairing: RopePairing::Neox,
        head_dim: HEAD_DIM,
        n_dims: HEAD_DIM,
        base: 1e6,
        freq_scale: 1.0,
        freq_factors: None,
    });
    let rope = rope.expect("a valid configuration");
    let mut group = c.benchmark_group("positions_and_cache");
    let mut angles = RopeAngles::default();
    // A sine and a cosine are no fixed number of operations: only their bytes are compared.
    let work = Work::small(0, 4 * HEAD_DIM);
    bench(&mut group, "rope_angles/128", work, || {
        rope_angles(&rope, black_box(1000), 1, &mut angles)
    });
    let mut q = activations(HEADS * HEAD_DIM);
    let work = Work::small(3 * q.len(), 8 * q.len());
    bench(&mut group, "rope/4x256", work, || {
        rope_embedding(&rope, &angles, HEADS, black_box(&mut q))
    });
    let mut cache = cache(1024);
    let kv = activations(HEAD_DIM);
    let work = Work::small(0, 2 * 6 * HEAD_DIM);
    bench(&mut group, "kv_cache_write/2x256", work, || {
        kv_cache_write(&mut cache, 0, 1023, black_box(&kv), &kv)
    });
    let table = vec![32; Format::Q8_0.bytes_for(1024 * EMBD).expect("whole blocks")];
    let table = Matrix::new(Format::Q8_0, 1024, EMBD, &table).expect("a valid matrix");
    let mut out = vec![0.0; EMBD];
    let work = Work::small(EMBD, table.byte_len() / table.rows() + 4 * EMBD);
    bench(&mut group, "embedding/640", work, || {
        embedding(&table, black_box(&[7]), 25.0, &mut out)
    });
}

pub(crate) fn softmax_and_sampling(c: &mut Criterion<Roofline>) {
    let mut group = c.benchmark_group("softmax_and_sampling");
    let mut x = activations(HEADS * 1024);
    let work = Work::small(4 * x.len(), 8 * x.len());
    bench(&mut group, "softmax/4x1024", work, || {
        softmax(black_box(&mut x), 1024)
    });
    let logits = activations(262_144);
    for (name, config) in [
        ("greedy", SamplerConfig::GREEDY),
        ("default", SamplerConfig::default()),
    ] {
        let mut sampler = Sampler::new(config).expect("a valid configuration");
        let work = Work::small(logits.len(), 4 * logits.len());
        let name = format!("sample_{name}/262144");
        bench(&mut group, &name, work, || {
            sampler.sample(black_box(&logits))
        });
    }
}
