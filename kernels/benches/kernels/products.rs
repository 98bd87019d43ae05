//! Products with weights: decode, a few tokens, a prompt.

use std::cell::Cell;
use std::hint::black_box;

use brick_kernels::activation::Activation;
use brick_kernels::gemm::{gemm, gemv};
use brick_kernels::lm_head::lm_head;
use brick_kernels::projection::{GateUpWeights, QkvWeights, gate_up_projection, qkv_projection};
use brick_kernels::quant::{ActivationFormat, Activations, Format, Matrix};
use criterion::Criterion;

use super::activations;
use super::roofline::{Arithmetic, From, Roofline, Threads, Work, bench};

/// Weights of any format: bytes of which no two or four are NaN, infinite or a subnormal `f32`
/// (those are slow to multiply).
fn weights(format: Format, rows: usize, cols: usize) -> Vec<u8> {
    let n = rows * format.bytes_for(cols).expect("whole blocks");
    (0..n).map(|i| 32 + (i * 37 % 32) as u8).collect()
}

fn matrix(format: Format, rows: usize, cols: usize, bytes: &[u8]) -> Matrix<'_> {
    Matrix::new(format, rows, cols, bytes).expect("a valid matrix")
}

/// Both ways of taking activations; what a format without blocks has.
fn ways(format: Format) -> &'static [(&'static str, Activations)] {
    match ActivationFormat::for_weights(format) {
        Some(_) => &[("f32", Activations::F32), ("rounded", Activations::Rounded)],
        None => &[("f32", Activations::F32)],
    }
}

/// Products of `n_tokens` with matrices like `w`, `outputs` rows in all.
fn work(w: &Matrix<'_>, outputs: usize, n_tokens: usize, from: From) -> Work {
    Work {
        flops: 2 * w.cols() * outputs * n_tokens,
        bytes: w.byte_len() / w.rows() * outputs + 4 * n_tokens * (w.cols() + outputs),
        arithmetic: match w.activations() {
            Activations::Rounded if ActivationFormat::for_weights(w.format()).is_some() => {
                Arithmetic::Bytes
            }
            _ => Arithmetic::F32,
        },
        from,
        threads: Threads::All,
    }
}

/// Decode, of a matrix that stays in the cores' caches.
pub(crate) fn gemv_of_every_format(c: &mut Criterion<Roofline>) {
    let (rows, cols) = (640, 1024);
    let mut group = c.benchmark_group("gemv_640x1024");
    for format in Format::ALL {
        let bytes = weights(format, rows, cols);
        let (x, mut y) = (activations(cols), vec![0.0; rows]);
        for &(name, way) in ways(format) {
            let w = matrix(format, rows, cols, &bytes).with_activations(way);
            let name = format!("{name}/{format}");
            bench(&mut group, &name, work(&w, rows, 1, From::Cache), || {
                gemv(&w, black_box(&x), &mut y)
            });
        }
    }
}

/// Decode, of weights that come from memory: each call has the next piece of a buffer that no cache
/// holds.
pub(crate) fn gemv_from_memory(c: &mut Criterion<Roofline>) {
    const PIECE: usize = 8 << 20;
    const PIECES: usize = 64;
    let cols = 2048;
    let buffer: Vec<u8> = (0..PIECE * PIECES).map(|i| 32 + (i % 31) as u8).collect();
    let next = Cell::new(0);
    let mut group = c.benchmark_group("gemv_from_memory");
    for format in Format::ALL {
        if ActivationFormat::for_weights(format).is_none() {
            continue;
        }
        let row_bytes = format.bytes_for(cols).expect("whole blocks");
        let rows = PIECE / row_bytes;
        let (x, mut y) = (activations(cols), vec![0.0; rows]);
        let piece = || {
            let piece = next.replace((next.get() + 1) % PIECES);
            matrix(
                format,
                rows,
                cols,
                &buffer[piece * PIECE..][..rows * row_bytes],
            )
        };
        let name = format!("rounded/{format}");
        bench(
            &mut group,
            &name,
            work(&piece(), rows, 1, From::Memory),
            || gemv(&piece(), black_box(&x), &mut y),
        );
    }
}

/// The shapes of the layers' matrices, in the formats that they have.
const LAYERS: [(Format, usize, usize); 6] = [
    (Format::F32, 2048, 640),
    (Format::Q4_1, 2048, 640),
    (Format::Q5_0, 2048, 640),
    (Format::Q8_0, 2048, 640),
    (Format::Q4K, 640, 1024),
    (Format::Q6K, 640, 2048),
];

/// A short prompt.
pub(crate) fn few_tokens(c: &mut Criterion<Roofline>) {
    gemms(c, 6);
}

/// Prefill: each weight is used for every token.
pub(crate) fn gemm_of_a_prompt(c: &mut Criterion<Roofline>) {
    gemms(c, 512);
}

fn gemms(c: &mut Criterion<Roofline>, tokens: usize) {
    let mut group = c.benchmark_group(format!("gemm_x{tokens}"));
    for (format, rows, cols) in LAYERS {
        let bytes = weights(format, rows, cols);
        let (x, mut y) = (activations(tokens * cols), vec![0.0; tokens * rows]);
        for &(name, way) in ways(format) {
            let w = matrix(format, rows, cols, &bytes).with_activations(way);
            let name = format!("{name}/{format}_{rows}x{cols}");
            bench(
                &mut group,
                &name,
                work(&w, rows, tokens, From::Cache),
                || gemm(&w, black_box(&x), tokens, &mut y),
            );
        }
    }
}

/// The projections that take several matrices, of one token.
pub(crate) fn projections(c: &mut Criterion<Roofline>) {
    let cols = 640;
    let format = Format::Q5_0;
    let bytes = weights(format, 2048, cols);
    let of = |rows: usize| {
        let bytes = &bytes[..rows * format.bytes_for(cols).expect("whole blocks")];
        matrix(format, rows, cols, bytes)
    };
    let x = activations(cols);
    let mut group = c.benchmark_group("projection");
    let w = QkvWeights {
        q: of(1024),
        k: of(256),
        v: of(256),
        q_bias: None,
        k_bias: None,
        v_bias: None,
    };
    let (mut q, mut k, mut v) = (vec![0.0; 1024], vec![0.0; 256], vec![0.0; 256]);
    let of_qkv = work(&w.q, w.outputs(), 1, From::Cache);
    bench(&mut group, "qkv/Q5_0_1536x640", of_qkv, || {
        qkv_projection(&w, black_box(&x), 1, &mut q, &mut k, &mut v)
    });
    let w = GateUpWeights {
        gate: of(2048),
        up: of(2048),
    };
    let mut out = vec![0.0; 2048];
    let of_gate_up = work(&w.gate, 2 * 2048, 1, From::Cache);
    bench(&mut group, "gate_up/Q5_0_4096x640", of_gate_up, || {
        gate_up_projection(&w, Activation::GeluTanh, black_box(&x), 1, &mut out)
    });
}

/// The largest matrix of a small model.
pub(crate) fn lm_head_of_a_large_vocabulary(c: &mut Criterion<Roofline>) {
    let (rows, cols) = (262_144, 640);
    let bytes = weights(Format::Q8_0, rows, cols);
    let (x, mut y) = (activations(cols), vec![0.0; rows]);
    let mut group = c.benchmark_group("lm_head_262144x640");
    for &(name, way) in ways(Format::Q8_0) {
        let w = matrix(Format::Q8_0, rows, cols, &bytes).with_activations(way);
        let name = format!("{name}/Q8_0");
        bench(&mut group, &name, work(&w, rows, 1, From::Memory), || {
            lm_head(&w, black_box(&x), 1, &mut y)
        });
    }
}
