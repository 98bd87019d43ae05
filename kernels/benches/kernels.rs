//! Throughput of the kernels at the shapes of a 270M model: `cargo bench -p brick-kernels`.
//!
//! `gemv` and `lm_head` print bytes of weights a second, the rest floating-point operations
//! ("elements") a second; `f32` and `rounded` are the two ways of taking activations. On all cores
//! unless `RAYON_NUM_THREADS` says otherwise; `BRICK_KERNELS` forces an instruction set. What this
//! machine can do at most comes first, in the same units.

use std::hint::black_box;
use std::num::NonZeroUsize;

use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::ceilings::{MachineCeilings, Plan};
use brick_kernels::gemm::{gemm, gemv};
use brick_kernels::kv_cache::{KvCache, kv_cache_write};
use brick_kernels::lm_head::lm_head;
use brick_kernels::quant::{ActivationFormat, Activations, Format, Matrix};
use brick_kernels::rms_norm::rms_norm;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Weights of any format: bytes of which no two or four are NaN, infinite or a subnormal `f32`
/// (those are slow to multiply).
fn weights(format: Format, rows: usize, cols: usize) -> Vec<u8> {
    let n = rows * format.bytes_for(cols).expect("whole blocks");
    (0..n).map(|i| 32 + (i * 37 % 32) as u8).collect()
}

fn activations(n: usize) -> Vec<f32> {
    (0..n).map(|i| (i as f32 * 0.37).sin()).collect()
}

/// What the numbers below may be compared with: lower quartile, median and best.
fn print_ceilings(_: &mut Criterion) {
    let machine = MachineCeilings::measure(&Plan::for_this_machine(), |_| ());
    let machine = machine.expect("memory for a buffer");
    let threads = machine.all.threads;
    // Criterion's GiB/s are 2^30 bytes, its Gelem/s are 10^9.
    for (name, spread, unit, shown) in [
        ("memory read", machine.all.memory_read, 1u64 << 30, "GiB/s"),
        ("cache read", machine.all.cache_read, 1 << 30, "GiB/s"),
        ("f32", machine.all.multiply_add, 1_000_000_000, "Gelem/s"),
    ] {
        let [low, median, best] =
            [spread.low, spread.median, spread.best].map(|rate| rate / unit as f64);
        println!(
            "ceiling of {threads} thread(s), {name}: [{low:.2} {median:.2} {best:.2}] {shown}"
        );
    }
}

/// Both ways of taking activations; what a format without blocks has.
fn ways(format: Format) -> &'static [(&'static str, Activations)] {
    match ActivationFormat::for_weights(format) {
        Some(_) => &[("f32", Activations::F32), ("rounded", Activations::Rounded)],
        None => &[("f32", Activations::F32)],
    }
}

/// Decode: each weight is read once.
fn bench_gemv(c: &mut Criterion) {
    let (rows, cols) = (4096, 2048);
    let mut group = c.benchmark_group("gemv_4096x2048");
    for format in Format::ALL {
        let bytes = weights(format, rows, cols);
        let w = Matrix::new(format, rows, cols, &bytes).expect("a valid matrix");
        let (x, mut y) = (activations(cols), vec![0.0; rows]);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        for &(name, way) in ways(format) {
            let w = w.with_activations(way);
            group.bench_function(BenchmarkId::new(name, format), |b| {
                b.iter(|| gemv(&w, black_box(&x), &mut y));
            });
        }
    }
}

/// The largest matrix of a small model, which no cache holds.
fn bench_lm_head(c: &mut Criterion) {
    let (rows, cols) = (262_144, 640);
    let bytes = weights(Format::Q8_0, rows, cols);
    let w = Matrix::new(Format::Q8_0, rows, cols, &bytes).expect("a valid matrix");
    let (x, mut y) = (activations(cols), vec![0.0; rows]);
    let mut group = c.benchmark_group("lm_head_262144x640");
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.sample_size(20);
    for &(name, way) in ways(Format::Q8_0) {
        let w = w.with_activations(way);
        group.bench_function(BenchmarkId::new(name, Format::Q8_0), |b| {
            b.iter(|| lm_head(&w, black_box(&x), 1, &mut y));
        });
    }
}

/// Prefill: each weight is used for every token.
fn bench_gemm(c: &mut Criterion) {
    let tokens = 512;
    let mut group = c.benchmark_group("gemm_x512");
    for (format, rows, cols) in [
        (Format::F32, 2048, 640),
        (Format::Q4_1, 2048, 640),
        (Format::Q5_0, 2048, 640),
        (Format::Q8_0, 2048, 640),
        (Format::Q4K, 640, 1024),
        (Format::Q6K, 640, 2048),
    ] {
        let bytes = weights(format, rows, cols);
        let w = Matrix::new(format, rows, cols, &bytes).expect("a valid matrix");
        let (x, mut y) = (activations(tokens * cols), vec![0.0; tokens * rows]);
        group.throughput(Throughput::Elements((2 * rows * cols * tokens) as u64));
        for &(name, way) in ways(format) {
            let w = w.with_activations(way);
            let shape = format!("{format}_{rows}x{cols}");
            group.bench_function(BenchmarkId::new(name, shape), |b| {
                b.iter(|| gemm(&w, black_box(&x), tokens, &mut y));
            });
        }
    }
}

/// Four query heads of 256 on one key-value head.
fn bench_attention(c: &mut Criterion) {
    let (heads, dim, len) = (4, 256, 1024);
    let mut cache = KvCache::new(1, 1, dim, len).expect("a small cache");
    let kv = activations(len * dim);
    kv_cache_write(&mut cache, 0, 0, &kv, &kv).expect("room for it");
    let mut group = c.benchmark_group("attention_4x256");
    for (name, first_pos, n_tokens, window) in [
        ("decode_at_1024", len - 1, 1, None),
        ("prefill_1024", 0, len, None),
        ("prefill_1024_window_512", 0, len, NonZeroUsize::new(512)),
    ] {
        let config = AttentionConfig {
            n_heads: heads,
            scale: 0.0625,
            window,
        };
        let (q, mut out) = (
            activations(n_tokens * heads * dim),
            vec![0.0; n_tokens * heads * dim],
        );
        let flops = config.flops(dim, first_pos, n_tokens);
        group.throughput(Throughput::Elements(flops as u64));
        group.bench_function(name, |b| {
            b.iter(|| {
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
        });
    }
}

fn bench_rms_norm(c: &mut Criterion) {
    let dim = 640;
    let weight = activations(dim);
    let mut group = c.benchmark_group("rms_norm_640");
    for tokens in [1, 512] {
        let (x, mut out) = (activations(tokens * dim), vec![0.0; tokens * dim]);
        group.throughput(Throughput::Elements((4 * x.len()) as u64));
        group.bench_function(BenchmarkId::from_parameter(tokens), |b| {
            b.iter(|| rms_norm(black_box(&x), &weight, 1e-6, &mut out));
        });
    }
}

criterion_group!(
    kernels,
    print_ceilings,
    bench_gemv,
    bench_lm_head,
    bench_gemm,
    bench_attention,
    bench_rms_norm
);
criterion_main!(kernels);
