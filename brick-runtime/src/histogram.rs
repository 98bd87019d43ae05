//! A log-linear histogram: 16 buckets an octave, so no bucket is wider than 1/16 of its value.
//!
//! The buckets are those of floating-point numbers with four bits of mantissa: a value's bucket
//! is read off the bits of the value as a float, without a branch or a count of zeroes. They go
//! up to 2⁴⁸ ticks (a day at 3 GHz); the last one takes what lies beyond, the first one 0 too.

/// log₂ of the buckets per octave.
const SUB_BITS: u32 = 4;

/// Values from here on fall in the last bucket.
pub(crate) const LIMIT: u64 = 1 << 48;

/// Buckets of a histogram.
pub(crate) const BUCKETS: usize = (LIMIT.ilog2() as usize) << SUB_BITS;

/// The width of a bucket relative to its lower edge is at most this.
pub(crate) const RESOLUTION: f64 = 1.0 / (1u32 << SUB_BITS) as f64;

/// The bucket that `value` falls in; below [`BUCKETS`].
#[inline]
#[cfg_attr(not(feature = "visualization"), allow(dead_code))]
pub(crate) fn bucket(value: u64) -> usize {
    const ONE: u64 = 1.0f64.to_bits() >> (52 - SUB_BITS);
    let float = value.clamp(1, LIMIT - 1) as f64;
    ((float.to_bits() >> (52 - SUB_BITS)) - ONE) as usize
}

/// A bucket's edges: it holds `low ≤ value < high`.
pub(crate) fn edges(bucket: usize) -> (u64, u64) {
    let edge = |bucket: usize| {
        let octave = bucket >> SUB_BITS;
        let mantissa = (1 << SUB_BITS) + (bucket & ((1 << SUB_BITS) - 1)) as u64;
        // In the lowest octaves the edges lie between whole numbers: up to the next.
        (mantissa << octave).div_ceil(1 << SUB_BITS)
    };
    if bucket == 0 {
        (0, 2)
    } else {
        (edge(bucket), edge(bucket + 1))
    }
}

/// Counts per bucket, as a reader sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// `(bucket, count)`, ascending, no zero counts: a kernel's times span few octaves.
    counts: Vec<(u16, u64)>,
}

impl Histogram {
    /// Of bucket counts in ascending order of bucket.
    #[cfg_attr(not(feature = "visualization"), allow(dead_code))]
    pub(crate) fn new(counts: impl Iterator<Item = (usize, u64)>) -> Histogram {
        let counts = counts
            .filter(|&(_, n)| n > 0)
            .map(|(b, n)| (b as u16, n))
            .collect();
        Histogram { counts }
    }

    /// Values counted.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().map(|&(_, n)| n).sum()
    }

    /// What was added since `earlier`, an older state of the same histogram.
    pub(crate) fn since(&self, earlier: &Histogram) -> Histogram {
        let mut old = earlier.counts.iter().peekable();
        let counts = self.counts.iter().filter_map(|&(bucket, n)| {
            while old.next_if(|&&(b, _)| b < bucket).is_some() {}
            let before = old.next_if(|&&(b, _)| b == bucket).map_or(0, |&(_, n)| n);
            (n > before).then(|| (bucket, n - before))
        });
        Histogram {
            counts: counts.collect(),
        }
    }

    /// The `q`-quantile as `(value, low, high)`: the values below it are `q` of all. The true
    /// sample quantile lies in `low..=high`; `value` is interpolated as if the bucket's values
    /// lay evenly in it. `min` and `max`, where known, narrow the edges. `None` when empty.
    pub(crate) fn quantile(
        &self,
        q: f64,
        min: Option<u64>,
        max: Option<u64>,
    ) -> Option<(f64, f64, f64)> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        // The rank of the sample quantile: nearest rank, 1-based.
        let rank = ((q.clamp(0.0, 1.0) * count as f64).ceil() as u64).clamp(1, count);
        let mut below = 0;
        for &(bucket, n) in &self.counts {
            if below + n >= rank {
                let (low, high) = edges(bucket.into());
                // The last value of the bucket, not the edge that belongs to the next one.
                let (mut low, mut high) = (low as f64, (high - 1) as f64);
                if let Some(min) = min {
                    low = low.max(min as f64);
                }
                if let Some(max) = max {
                    // The last bucket has no upper edge but the maximum.
                    high = if usize::from(bucket) == BUCKETS - 1 {
                        max as f64
                    } else {
                        high.min(max as f64)
                    };
                }
                let within = (rank - below) as f64 - 0.5;
                return Some((low + (high - low) * within / n as f64, low, high));
            }
            below += n;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value lies within its bucket's edges, and no bucket is too wide.
    #[test]
    #[cfg_attr(miri, ignore = "safe arithmetic, and a great deal of it")]
    fn buckets_tile_the_line() {
        let near_edges = (0..48).flat_map(|octave| {
            (0..=16u64).flat_map(move |m| {
                let edge = (1u64 << octave) + (m << octave) / 16;
                [edge.saturating_sub(1), edge, edge + 1]
            })
        });
        let mut last = 0;
        for value in (0..100_000).chain(near_edges).filter(|&v| v < LIMIT) {
            let b = bucket(value);
            let (low, high) = edges(b);
            assert!(
                (low..high).contains(&value),
                "{value} is not in {low}..{high}"
            );
            // Width in whole numbers: a bucket of one value has none.
            assert!(low < 2 || (high - 1 - low) as f64 <= low as f64 * RESOLUTION);
            last = last.max(b);
        }
        assert_eq!(last, BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(edges(BUCKETS - 1).1, LIMIT);
    }

    fn xorshift(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    fn of(samples: &[u64]) -> Histogram {
        let mut counts = vec![0u64; BUCKETS];
        for &s in samples {
            counts[bucket(s)] += 1;
        }
        Histogram::new(counts.into_iter().enumerate())
    }

    /// Against the exact quantiles of the sorted samples, over three shapes of distribution.
    #[test]
    #[cfg_attr(miri, ignore = "safe arithmetic, and a great deal of it")]
    fn quantiles_hold_the_exact_one() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        for shape in 0..3 {
            let mut samples: Vec<u64> = (0..10_001)
                .map(|_| {
                    let r = xorshift(&mut state);
                    match shape {
                        0 => 1_000 + r % 500,
                        1 => 1 << (r % 30),
                        _ => 3 * (r >> (20 + r % 24)),
                    }
                })
                .collect();
            let histogram = of(&samples);
            samples.sort_unstable();
            let (min, max) = (samples[0], samples[samples.len() - 1]);
            for q in [0.0, 0.01, 0.5, 0.9, 0.95, 0.99, 1.0] {
                let rank = ((q * samples.len() as f64).ceil() as usize).max(1);
                let exact = samples[rank - 1] as f64;
                let (value, low, high) = histogram.quantile(q, Some(min), Some(max)).unwrap();
                assert!(
                    (low..=high).contains(&exact),
                    "shape {shape} q {q}: {exact} not in {low}..={high}"
                );
                assert!((low..=high).contains(&value));
                assert!(
                    (value - exact).abs() <= exact * RESOLUTION + 1.0,
                    "shape {shape} q {q}: {value} for {exact}"
                );
            }
        }
    }

    #[test]
    fn difference_is_what_came_after() {
        let before = [3, 3, 900, 70_000];
        let after = [5, 900, 900, 1 << 40];
        let all: Vec<u64> = before.iter().chain(&after).copied().collect();
        assert_eq!(of(&all).since(&of(&before)), of(&after));
        assert_eq!(of(&before).since(&of(&before)).count(), 0);
        assert_eq!(Histogram::default().quantile(0.5, None, None), None);
    }
}
