//! Cross-entropy against its definition in 64-bit floats, and against closed forms.

mod common;

use brick_kernels::KernelError;
use brick_kernels::cross_entropy::cross_entropy;
use common::numbers;
use proptest::prelude::*;

fn nll(logits: &[f32], targets: &[u32]) -> Vec<f64> {
    let mut nll = vec![0.0; targets.len()];
    cross_entropy(logits, targets, &mut nll).unwrap();
    nll
}

/// `ln Σ exp(x)` without taking the maximum out.
fn naive(row: &[f32], target: u32) -> f64 {
    let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
    sum.ln() - f64::from(row[target as usize])
}

proptest! {
    #[test]
    fn is_its_definition(rows in 1_usize..70, n_vocab in 1_usize..3000, seed in 0_u64..1000) {
        let scale = 30.0;
        let logits: Vec<f32> = numbers(seed, rows * n_vocab).iter().map(|x| x * scale).collect();
        let targets: Vec<u32> = (0..rows).map(|row| ((row * 7919) % n_vocab) as u32).collect();
        let found = nll(&logits, &targets);
        for ((row, &target), found) in logits.chunks(n_vocab).zip(&targets).zip(found) {
            let expected = naive(row, target);
            prop_assert!((found - expected).abs() < 1e-6 * expected.max(1.0), "{found} {expected}");
        }
    }
}

#[test]
fn closed_forms() {
    // Equal logits: the logarithm of how many there are, also where exponentials overflow f32.
    for offset in [0.0, 1e4, -1e4] {
        assert!(
            (nll(&[offset; 8], &[3])[0] - 8_f64.ln()).abs() < 1e-12,
            "{offset}"
        );
    }
    // All of the probability, and e^-100 of it.
    assert_eq!(nll(&[100.0, 0.0, 100.0, 0.0], &[0, 1]), [0.0, 100.0]);
    // A masked token takes no part.
    assert_eq!(nll(&[2.0, f32::NEG_INFINITY], &[0]), [0.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |logits: &[f32], targets: &[u32], n| {
        cross_entropy(logits, targets, &mut vec![0.0; n]).unwrap_err()
    };
    for (error, told) in [
        (
            refused(&[], &[], 0),
            "cross_entropy: `targets.len()` is zero",
        ),
        (
            refused(&[0.0; 4], &[0, 0], 1),
            "cross_entropy: `nll.len()` is 1, expected 2",
        ),
        (
            refused(&[0.0; 5], &[0, 0], 2),
            "cross_entropy: `logits.len()` is 5, not a multiple of 2",
        ),
        (
            refused(&[0.0; 4], &[0, 2], 2),
            "cross_entropy: `targets[i]` is 2, the limit is 1",
        ),
    ] {
        assert_eq!(error.to_string(), told);
    }
    assert!(matches!(
        refused(&[], &[0], 1),
        KernelError::OutOfRange { .. }
    ));
}
