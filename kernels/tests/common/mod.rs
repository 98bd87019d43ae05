//! References that share no code with the kernels: plain loops, sums in `f64`.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;

use brick_kernels::Team;
use brick_kernels::quant::Format;

pub(crate) fn golden(path: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(path);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn golden_f32(path: &str) -> Vec<f32> {
    let bytes = golden(path);
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect()
}

/// Numbers in -1..1, the same for the same seed.
pub(crate) fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Random weights in `format`: random bits, except that no scale is large or not finite.
pub(crate) fn weights(format: Format, seed: u64, elems: usize) -> Vec<u8> {
    let n = format.bytes_for(elems).expect("whole blocks");
    let mut bytes: Vec<u8> = numbers(seed, n)
        .iter()
        .map(|v| (v * 128.0) as i8 as u8)
        .collect();
    // Upper bytes of the halves (and of the formats without blocks) at most 0x2f: below 0.125.
    let upper: &[usize] = match format {
        Format::F32 => &[3],
        Format::F16 | Format::Bf16 | Format::Q4_0 | Format::Q5_0 | Format::Q8_0 => &[1],
        Format::Q4_1 | Format::Q4K | Format::Q5K => &[1, 3],
        Format::Q6K => &[209],
        _ => panic!("a new format: say where its scales are"),
    };
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        for &at in upper {
            block[at] &= 0x2f | 0x80;
        }
    }
    bytes
}

/// Runs `body` on a pool of so many threads and with a team of as many: what both come to.
pub(crate) fn on_threads<R: Send + PartialEq>(
    threads: usize,
    body: impl Fn() -> R + Send + Sync,
) -> R {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
    let on_pool = builder.build().unwrap().install(&body);
    let with_team = Team::new(threads).unwrap().install(body);
    assert!(
        on_pool == with_team,
        "{threads} threads of a team differ from a pool's"
    );
    with_team
}

/// A sum of products, and what its rounding error is measured against.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> (f64, f64) {
    assert_eq!(a.len(), b.len());
    let products = a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b));
    products.fold((0.0, 0.0), |(sum, size), p| (sum + p, size + p.abs()))
}

#[track_caller]
pub(crate) fn assert_close(actual: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    for (i, (&a, &e)) in actual.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(a) - e).abs() <= tolerance,
            "[{i}]: {a}, expected {e}"
        );
    }
}

/// Attention as the formula reads: all scores, softmax, weighted values. `q` is `[n_tokens,
/// n_heads, dim]`, `k` and `v` `[n_pos, n_kv_heads, dim]`.
#[allow(clippy::too_many_arguments, reason = "a formula with its dimensions")]
pub(crate) fn attention(
    q: &[f32],
    k: &[f32],
    v: &[f32],
    (n_heads, n_kv_heads, dim): (usize, usize, usize),
    scale: f32,
    window: usize,
    first_pos: usize,
) -> Vec<f64> {
    let mut out = Vec::new();
    for (i, q) in q.chunks_exact(dim).enumerate() {
        let (pos, head) = (first_pos + i / n_heads, i % n_heads);
        let kv_head = head * n_kv_heads / n_heads;
        let row = |p: usize| (p * n_kv_heads + kv_head) * dim..(p * n_kv_heads + kv_head + 1) * dim;
        let seen: Vec<usize> = (0..=pos).filter(|p| pos - p < window).collect();
        let scores = seen
            .iter()
            .map(|&p| f64::from(scale) * dot(q, &k[row(p)]).0);
        let scores: Vec<f64> = scores.collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
        let sum: f64 = weights.iter().sum();
        let column = |c: usize| {
            let terms = seen
                .iter()
                .zip(&weights)
                .map(|(&p, w)| w * f64::from(v[row(p)][c]));
            terms.sum::<f64>() / sum
        };
        out.extend((0..dim).map(column));
    }
    out
}
