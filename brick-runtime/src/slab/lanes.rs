//! Eight calls at a time: their statistics, summed in vector registers.
//!
//! On x86-64 with SSE2, which every one has; elsewhere the same in plain code.

use super::run::Run;
use crate::histogram::{BUCKETS, LIMIT};

/// Histogram buckets of eight ticks; each is below [`BUCKETS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets(pub(super) [usize; 8]);

/// The most ticks that are taken in: so, below [`LIMIT`], there is a bucket for them, and one less
/// has no bit from this one's up.
const MOST: u64 = 1 << 47;
const _: () = assert!(MOST < LIMIT && BUCKETS == (LIMIT.ilog2() as usize) << 4);

/// Whether ticks are from 1 to [`MOST`].
#[cfg(any(test, not(target_arch = "x86_64")))]
fn fits(ticks: u64) -> bool {
    ticks.wrapping_sub(1) < MOST
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) use self::plain::Lanes;
#[cfg(target_arch = "x86_64")]
pub(super) use self::sse2::Lanes;

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::*;

    use super::{Buckets, MOST, Run};

    /// Sums and extremes; two ticks a register, two registers each, so that no addition waits
    /// for the one before.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Lanes {
        total: [__m128d; 2],
        squares: [__m128d; 2],
        min: [__m128d; 2],
        max: [__m128d; 2],
    }

    impl Lanes {
        #[inline(always)]
        pub(in super::super) fn new() -> Lanes {
            // SAFETY: x86-64 has SSE2.
            let (zero, infinity) = unsafe { (_mm_setzero_pd(), _mm_set1_pd(f64::INFINITY)) };
            Lanes {
                total: [zero; 2],
                squares: [zero; 2],
                min: [infinity; 2],
                max: [zero; 2],
            }
        }

        /// Takes in eight calls, if each took from 1 to [`MOST`] ticks: their buckets.
        #[inline(always)]
        pub(in super::super) fn add(&mut self, ticks: &[u64; 8]) -> Option<Buckets> {
            // SAFETY: x86-64 has SSE2; the loads are of 16 bytes within an array of 64.
            unsafe {
                let load = |i: usize| _mm_loadu_si128(ticks.as_ptr().add(i).cast());
                let ticks = [load(0), load(2), load(4), load(6)];
                // Less one, 0 has every bit set: too large as well.
                let less = |t| _mm_add_epi64(t, _mm_set1_epi64x(-1));
                let low = _mm_or_si128(less(ticks[0]), less(ticks[1]));
                let all = _mm_or_si128(low, _mm_or_si128(less(ticks[2]), less(ticks[3])));
                const SHIFT: i32 = MOST.ilog2() as i32;
                let high = _mm_srli_epi64::<SHIFT>(all);
                if _mm_movemask_epi8(_mm_cmpeq_epi8(high, _mm_setzero_si128())) != 0xffff {
                    return None;
                }
                let mut buckets = [0; 8];
                for (i, ticks) in ticks.into_iter().enumerate() {
                    let float = float(ticks);
                    let lane = i % 2;
                    // Whole numbers below 2⁵³: the sum is exact.
                    self.total[lane] = _mm_add_pd(self.total[lane], float);
                    self.squares[lane] = _mm_add_pd(self.squares[lane], _mm_mul_pd(float, float));
                    self.min[lane] = _mm_min_pd(self.min[lane], float);
                    self.max[lane] = _mm_max_pd(self.max[lane], float);
                    // See `histogram::bucket`.
                    const ONE: usize = (1.0f64.to_bits() >> 48) as usize;
                    let bits = _mm_castpd_si128(float);
                    buckets[2 * i] = (_mm_extract_epi16::<3>(bits) as usize).wrapping_sub(ONE);
                    buckets[2 * i + 1] = (_mm_extract_epi16::<7>(bits) as usize).wrapping_sub(ONE);
                }
                Some(Buckets(buckets))
            }
        }

        /// The run, of `count` calls.
        pub(in super::super) fn run(self, count: u64) -> Run {
            let fold = |lanes: [__m128d; 2], f: fn(f64, f64) -> f64| {
                // SAFETY: two registers of two `f64`s have the layout of four.
                let [a, b, c, d]: [f64; 4] = unsafe { std::mem::transmute(lanes) };
                f(f(a, b), f(c, d))
            };
            Run {
                count,
                total: fold(self.total, |a, b| a + b) as u64,
                min: fold(self.min, f64::min) as u64,
                max: fold(self.max, f64::max) as u64,
                squares: fold(self.squares, |a, b| a + b),
            }
        }
    }

    /// Two ticks below 2⁵² as floats: SSE2 has no conversion from 64-bit integers, but with the
    /// bits of 2⁵² above them, they are the mantissa of 2⁵² + ticks.
    #[inline(always)]
    fn float(ticks: __m128i) -> __m128d {
        const TWO_52: f64 = (1u64 << 52) as f64;
        // SAFETY: x86-64 has SSE2.
        unsafe {
            let base = _mm_set1_pd(TWO_52);
            _mm_sub_pd(_mm_or_pd(_mm_castsi128_pd(ticks), base), base)
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod plain {
    use super::{Buckets, Run, fits};
    use crate::histogram::bucket;

    /// Sums and extremes.
    #[derive(Clone, Copy, Debug)]
    pub(in super::super) struct Lanes {
        run: Run,
    }

    impl Lanes {
        pub(in super::super) fn new() -> Lanes {
            Lanes {
                run: Run {
                    count: 0,
                    total: 0,
                    min: u64::MAX,
                    max: 0,
                    squares: 0.0,
                },
            }
        }

        /// Takes in eight calls, if each took from 1 to [`MOST`] ticks: their buckets.
        pub(in super::super) fn add(&mut self, ticks: &[u64; 8]) -> Option<Buckets> {
            if !ticks.iter().all(|&t| fits(t)) {
                return None;
            }
            for &t in ticks {
                self.run.total += t;
                self.run.squares += t as f64 * t as f64;
                self.run.min = self.run.min.min(t);
                self.run.max = self.run.max.max(t);
            }
            Some(Buckets(ticks.map(bucket)))
        }

        /// The run, of `count` calls.
        pub(in super::super) fn run(self, count: u64) -> Run {
            Run { count, ..self.run }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors against the plain code, at every place of a value that does not fit.
    #[test]
    fn vectors_compute_what_plain_code_does() {
        let mut ticks = [1, 2, 50, 63, 1 << 20, (1 << 30) + 1, 7, MOST];
        let (mut fast, mut plain) = (Lanes::new(), plain::Lanes::new());
        for _ in 0..3 {
            ticks.rotate_left(3);
            let both = [fast.add(&ticks), plain.add(&ticks)];
            let [fast, plain] = both.map(|b| b.unwrap().0);
            assert_eq!(fast, plain);
        }
        let (fast_run, plain_run) = (fast.run(24), plain.run(24));
        assert_eq!(
            (fast_run.total, fast_run.min, fast_run.max),
            (plain_run.total, 1, MOST)
        );
        assert!((fast_run.squares / plain_run.squares - 1.0).abs() < 1e-15);
        for bad in [0, MOST + 1, LIMIT, u64::MAX, 1 << 63] {
            for place in 0..8 {
                let mut ticks = [100; 8];
                ticks[place] = bad;
                assert!(fast.add(&ticks).is_none());
                assert!(plain.add(&ticks).is_none());
            }
        }
        assert_eq!(fast.run(24).total, plain.run(24).total);
    }
}
