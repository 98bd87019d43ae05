//! A log-linear histogram: 16 buckets an octave, so no bucket is wider than 1/16 of its value.
//!
//! The layout is HdrHistogram's (Tene), with fixed size and without its configuration: ticks
//! below 16 have a bucket each, every octave above has 16 of equal width, up to 2⁴⁸
//! ticks (a day at 3 GHz); the last bucket takes what lies beyond.

/// log₂ of the buckets per octave.
const SUB_BITS: u32 = 4;
/// Octave of the largest value that is told apart.
const TOP: u32 = 47;

/// Buckets of a histogram.
pub(crate) const BUCKETS: usize = ((TOP - SUB_BITS) as usize + 2) << SUB_BITS;

/// The width of a bucket relative to its lower edge is at most this.
pub(crate) const RESOLUTION: f64 = 1.0 / (1u32 << SUB_BITS) as f64;

/// The bucket that `value` falls in; below [`BUCKETS`].
#[inline(always)]
#[cfg_attr(not(feature = "visualization"), allow(dead_code))]
pub(crate) fn bucket(value: u64) -> usize {
    let value = value.min((1 << (TOP + 1)) - 1);
    let shift = (value | 1 << SUB_BITS).ilog2() - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (value >> shift) as usize
}

/// A bucket's edges: it holds `low ≤ value < high`.
pub(crate) fn edges(bucket: usize) -> (u64, u64) {
    let octave = (bucket >> SUB_BITS).saturating_sub(1) as u32;
    let low = (bucket - ((octave as usize) << SUB_BITS)) as u64;
    (low << octave, (low + 1) << octave)
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

    /// Every bucket's edges meet the next one's and hold exactly the values that fall in it.
    #[test]
    fn buckets_tile_the_line() {
        let mut next = 0;
        for b in 0..BUCKETS {
            let (low, high) = edges(b);
            assert_eq!(low, next);
            assert_eq!((bucket(low), bucket(high - 1)), (b, b));
            assert!(low < 16 || (high - low) as f64 <= low as f64 * RESOLUTION);
            next = high;
        }
        assert_eq!(next, 1 << 48);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
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
