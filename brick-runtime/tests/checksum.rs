//! Checksums against published values and plain arithmetic; divergences where they were planted.

use brick_runtime::checksum::{Difference, Exact, KernelChecksum, Sketch, find_divergence};

/// Uniform numbers in -1..1 (Knuth's MMIX generator).
fn numbers(seed: u64, n: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Against FNV's published test vectors: the bytes of the text are those of the numbers.
#[test]
fn the_exact_checksum_is_fnv_1a() {
    let of = |text: &[u8]| {
        let floats = text
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes(four.try_into().unwrap()));
        Exact::of(&floats.collect::<Vec<_>>()).0
    };
    assert_eq!(Exact::of(&[]).0, 0xcbf2_9ce4_8422_2325);
    assert_eq!(of(b"foob"), 0xdd12_0e79_0c25_12af);
}

#[test]
fn every_number_counts_and_every_nan_is_one() {
    let x = numbers(1, 5000);
    let exact = Exact::of(&x);
    for index in [0, 63, 64, 4999] {
        let mut y = x.clone();
        y[index] = f32::from_bits(y[index].to_bits() ^ 1);
        assert_ne!(Exact::of(&y), exact, "{index}");
    }
    let nan = |bits: u32| Exact::of(&[1.0, f32::from_bits(bits)]);
    assert_eq!(nan(0x7fc0_0000), nan(0xffc0_1234));
    assert_ne!(nan(0x7fc0_0000), nan(0x7f80_0000));
    assert_ne!(Exact::of(&[0.0]), Exact::of(&[-0.0]));
}

/// The estimate against the distance itself.
#[test]
fn the_sketch_estimates_the_distance() {
    for (round, n) in [(0u64, 16usize), (1, 640), (2, 5000), (3, 100_000)] {
        let x = numbers(round + 10, n);
        for scale in [1e-6f32, 1e-3, 0.5] {
            let noise = numbers(round + 90, n);
            let y: Vec<f32> = x.iter().zip(&noise).map(|(x, e)| x + scale * e).collect();
            let squares = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
            let apart = squares(&mut x.iter().zip(&y).map(|(x, y)| f64::from(y - x)));
            let true_distance = apart / squares(&mut x.iter().map(|&x| f64::from(x)));
            let estimate = Sketch::of(&y).distance(&Sketch::of(&x));
            let ratio = estimate / true_distance;
            assert!((0.4..1.8).contains(&ratio), "{n} numbers, {scale}: {ratio}");
        }
        assert_eq!(Sketch::of(&x).distance(&Sketch::of(&x)), 0.0);
        // Two numbers that changed places: sums and moments are the same.
        let mut swapped = x.clone();
        swapped.swap(0, n - 1);
        assert!(Sketch::of(&swapped).distance(&Sketch::of(&x)) > 0.0);
    }
}

#[test]
fn what_is_not_finite_or_of_another_size_is_far_away() {
    let of = Sketch::of;
    assert_eq!(of(&[1.0, f32::NAN]).distance(&of(&[1.0, f32::NAN])), 0.0);
    for other in [
        &[1.0, f32::INFINITY][..],
        &[1.0, 2.0],
        &[1.0],
        &[1.0, f32::NAN, 0.0],
    ] {
        assert_eq!(of(other).distance(&of(&[1.0, f32::NAN])), f64::INFINITY);
    }
    assert_eq!(of(&[1.0]).distance(&of(&[0.0])), f64::INFINITY);
}

fn run() -> Vec<KernelChecksum> {
    let mut entries = Vec::new();
    for position in [0, 5] {
        for layer in 0..3 {
            for kernel in ["norm", "gemv"] {
                let tensor = numbers(position * 100 + layer, 64);
                entries.push(KernelChecksum::of(kernel, Some(layer), position, &tensor));
            }
        }
        entries.push(KernelChecksum::of(
            "head",
            None,
            position,
            &numbers(position, 10),
        ));
    }
    entries
}

#[test]
fn the_first_difference_is_named() {
    let reference = run();
    assert_eq!(find_divergence(&run(), &reference, None), None);
    assert_eq!(find_divergence(&run(), &reference, Some(0.0)), None);
    let mut changed = run();
    for later in [9, 11, 13] {
        changed[later] = KernelChecksum {
            exact: Exact(1),
            ..changed[later].clone()
        };
    }
    let found = find_divergence(&changed, &reference, None).unwrap();
    assert_eq!(
        (found.kernel.as_str(), found.layer, found.position),
        ("norm", Some(1), 5)
    );
    assert_eq!(
        found.to_string(),
        format!(
            "norm of layer 1 at position 5: 0000000000000001, expected {}",
            reference[9].exact
        )
    );
}

#[test]
fn a_missing_entry_is_a_divergence_on_either_side() {
    let reference = run();
    for gone in [0, 4, 6, 13] {
        let mut shorter = run();
        let missing = shorter.remove(gone);
        let told = |found: Option<brick_runtime::checksum::Divergence>| {
            let found = found.unwrap();
            assert_eq!(
                (&found.kernel, found.layer),
                (&missing.kernel, missing.layer)
            );
            (found.position, found.difference)
        };
        let position = missing.position;
        assert_eq!(
            told(find_divergence(&shorter, &reference, None)),
            (position, Difference::Missing)
        );
        assert_eq!(
            told(find_divergence(&reference, &shorter, None)),
            (position, Difference::Unexpected)
        );
    }
    assert_eq!(find_divergence(&[], &[], None), None);
}
