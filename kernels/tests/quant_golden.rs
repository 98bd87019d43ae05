//! Block formats against ggml, bit for bit (`golden/quant`: made with libggml-base).

mod common;

use bytemuck::Zeroable;
use common::{golden, golden_f32};

use brick_kernels::quant::{
    BadScale, BlockQ8_0, BlockQ8K, Format, Matrix, quantise_q8_0, quantise_q8_k,
};

const BLOCK_FORMATS: [(Format, bool); 7] = [
    // Whether the Gemma file has a tensor of the format, so that there are real blocks.
    (Format::Q4_0, false),
    (Format::Q4_1, false),
    (Format::Q5_0, true),
    (Format::Q8_0, true),
    (Format::Q4K, true),
    (Format::Q5K, false),
    (Format::Q6K, true),
];

fn dequantise(format: Format, bytes: &[u8]) -> Vec<f32> {
    let cols = bytes.len() / format.block_bytes() * format.block_elems();
    let matrix = Matrix::new(format, 1, cols, bytes).unwrap();
    let mut out = vec![0.0; cols];
    matrix.dequantise_row(0, &mut out).unwrap();
    out
}

#[track_caller]
fn assert_bits(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (i, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert_eq!(a.to_bits(), e.to_bits(), "[{i}]: {a}, expected {e}");
    }
}

#[test]
fn dequantises_as_ggml_does() {
    for (format, has_real) in BLOCK_FORMATS {
        let sets = ["syn", "bits"]
            .into_iter()
            .chain(has_real.then_some("real"));
        for set in sets {
            let raw = golden(&format!("quant/{format}.{set}.raw"));
            let expected = golden_f32(&format!("quant/{format}.{set}.deq.f32"));
            assert_bits(&dequantise(format, &raw), &expected);
        }
    }
}

#[test]
fn dequantises_at_any_alignment() {
    for (format, _) in BLOCK_FORMATS {
        let raw = golden(&format!("quant/{format}.syn.raw"));
        let expected = golden_f32(&format!("quant/{format}.syn.deq.f32"));
        let shifted = [&[0u8][..], &raw].concat();
        assert_bits(&dequantise(format, &shifted[1..]), &expected);
    }
}

#[test]
fn quantises_activations_as_ggml_does() {
    let x = golden_f32("quant/act.src.f32");
    let mut q8_0 = vec![BlockQ8_0::zeroed(); x.len() / 32];
    quantise_q8_0(&x, &mut q8_0).unwrap();
    assert_eq!(
        bytemuck::cast_slice::<_, u8>(&q8_0),
        golden("quant/act.q8_0.raw")
    );
    let mut q8_k = vec![BlockQ8K::zeroed(); x.len() / 256];
    quantise_q8_k(&x, &mut q8_k).unwrap();
    assert_eq!(
        bytemuck::cast_slice::<_, u8>(&q8_k),
        golden("quant/act.q8_K.raw")
    );
}

/// Zeros, a linear ramp, outliers: the weights that ggml quantised for the golden set.
#[test]
fn quantises_weights_to_q8_0_as_ggml_does() {
    let x = golden_f32("quant/Q8_0.syn.src.f32");
    let mut blocks = vec![BlockQ8_0::zeroed(); x.len() / 32];
    quantise_q8_0(&x, &mut blocks).unwrap();
    let (ours, theirs) = (
        dequantise(Format::Q8_0, bytemuck::cast_slice(&blocks)),
        golden_f32("quant/Q8_0.syn.deq.f32"),
    );
    // Files are quantised by the portable code, which rounds ties the other way: one step at most.
    for ((block, ours), theirs) in blocks.iter().zip(ours.chunks(32)).zip(theirs.chunks(32)) {
        let step = block.d.to_f32();
        assert!(ours.iter().zip(theirs).all(|(a, b)| (a - b).abs() <= step));
    }
    let differing = ours.iter().zip(&theirs).filter(|(a, b)| a != b).count();
    assert!(differing <= 2, "{differing} elements differ");
}

#[test]
fn zeros_quantise_to_zeros() {
    let mut q8_k = [BlockQ8K {
        d: 1.0,
        qs: [1; 256],
        bsums: [1; 16],
    }];
    quantise_q8_k(&[0.0; 256], &mut q8_k).unwrap();
    assert_eq!(q8_k[0], BlockQ8K::zeroed());
    let mut q8_0 = [BlockQ8_0::zeroed(); 8];
    q8_0.fill(BlockQ8_0 {
        qs: [1; 32],
        ..BlockQ8_0::zeroed()
    });
    quantise_q8_0(&[0.0; 256], &mut q8_0).unwrap();
    assert_eq!(q8_0, [BlockQ8_0::zeroed(); 8]);
}

#[test]
fn dense_formats_are_the_numbers_themselves() {
    let values = [
        0.0,
        -0.0,
        1.0,
        -2.5,
        65504.0,
        6.103_515_6e-5,
        5.960_464_5e-8,
    ];
    let f32s: Vec<u8> = values.iter().flat_map(|v: &f32| v.to_le_bytes()).collect();
    assert_bits(&dequantise(Format::F32, &f32s), &values);
    let halves = values
        .iter()
        .flat_map(|&v| half::f16::from_f32_const(v).to_le_bytes());
    assert_bits(
        &dequantise(Format::F16, &halves.collect::<Vec<u8>>()),
        &values,
    );
    let bf16s: Vec<half::bf16> = values.iter().map(|&v| half::bf16::from_f32(v)).collect();
    let bytes: Vec<u8> = bf16s.iter().flat_map(|v| v.to_le_bytes()).collect();
    let expected: Vec<f32> = bf16s.iter().map(|v| v.to_f32()).collect();
    assert_bits(&dequantise(Format::Bf16, &bytes), &expected);
}

#[test]
fn a_bad_scale_is_found_where_it_is() {
    // The offsets of every half that is a scale, by the format's layout.
    let scales: [(Format, &[usize]); 9] = [
        (Format::F16, &[0]),
        (Format::Bf16, &[0]),
        (Format::Q4_0, &[0]),
        (Format::Q4_1, &[0, 2]),
        (Format::Q5_0, &[0]),
        (Format::Q8_0, &[0]),
        (Format::Q4K, &[0, 2]),
        (Format::Q5K, &[0, 2]),
        (Format::Q6K, &[208]),
    ];
    for (format, offsets) in scales {
        let (rows, blocks) = (3, 4);
        let good = common::weights(format, 7, rows * blocks * format.block_elems());
        let find = |bytes: &[u8]| {
            let matrix = Matrix::new(format, rows, blocks * format.block_elems(), bytes);
            matrix.unwrap().find_bad_scale()
        };
        assert_eq!(find(&good), None, "{format}");
        // NaN and both infinities.
        let bad_halves = match format {
            Format::Bf16 => [0x7f81u16, 0x7f80, 0xff80],
            _ => [0x7c01, 0x7c00, 0xfc00],
        };
        for &offset in offsets {
            for bits in bad_halves {
                let mut bad = good.clone();
                let at = (2 * blocks + 1) * format.block_bytes() + offset;
                bad[at..at + 2].copy_from_slice(&bits.to_le_bytes());
                let found = find(&bad);
                assert_eq!(
                    found,
                    Some(BadScale { row: 2, block: 1 }),
                    "{format} {bits:#x}"
                );
            }
        }
    }
    let values = [1.0, 2.0, 3.0, f32::NAN];
    let found = Matrix::from_f32(2, 2, &values).unwrap().find_bad_scale();
    assert_eq!(found, Some(BadScale { row: 1, block: 1 }));
}
