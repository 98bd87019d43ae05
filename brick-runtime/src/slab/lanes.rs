//! Eight calls at a time: their statistics, summed in vector registers.
//!
//! On x86-64 with SSE2, which every one has; elsewhere the same in plain code. (AVX2 was tried and
//! was no faster: most of the work is the histogram, one increment for each call.)

use super::run::Run;
use crate::histogram::{BUCKETS, LIMIT};

/// Histogram buckets of eight ticks; each is below [`BUCKETS`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Buckets([f64; 8]);

impl Buckets {
    /// A tick's bucket is in the upper 16 bits of it as a float: sign, exponent, and as many bits
    /// of the mantissa as tell buckets apart (see `histogram::bucket`).
    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        const ONE: usize = (1.0f64.to_bits() >> 48) as usize;
        let upper = |f: f64| (f.to_bits() >> 48) as usize;
        self.0.into_iter().map(move |f| upper(f).wrapping_sub(ONE))
    }
}

/// The most ticks that are taken in: so, below [`LIMIT`], there is a bucket for them, and one less
/// has no bit from this one's up.
const MOST: u64 = 1 << 47;
const _: () = assert!(MOST < LIMIT && BUCKETS == (LIMIT.ilog2() as usize) << 4);

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
            // SAFETY: x86-64 has SSE2; loads and stores are of 16 bytes within arrays of 64.
            unsafe {
                // Less one, 0 has every bit set: too large as well.
                let less = |i: usize| {
                    let ticks = _mm_loadu_si128(ticks.as_ptr().add(i).cast());
                    _mm_add_epi64(ticks, _mm_set1_epi64x(-1))
                };
                let less = [less(0), less(2), less(4), less(6)];
                let all = _mm_or_si128(
                    _mm_or_si128(less[0], less[1]),
                    _mm_or_si128(less[2], less[3]),
                );
                const SHIFT: i32 = MOST.ilog2() as i32;
                let high = _mm_srli_epi64::<SHIFT>(all);
                if _mm_movemask_epi8(_mm_cmpeq_epi8(high, _mm_setzero_si128())) != 0xffff {
                    return None;
                }
                // What is below 2⁵², with the bits of 2⁵² above it, is the mantissa of their sum: a
                // conversion from 64-bit integers, which SSE2 has none of.
                const TWO_52: f64 = (1u64 << 52) as f64;
                let mut floats = [0.0; 8];
                for (i, less) in less.into_iter().enumerate() {
                    let sum = _mm_or_pd(_mm_castsi128_pd(less), _mm_set1_pd(TWO_52));
                    let float = _mm_sub_pd(sum, _mm_set1_pd(TWO_52 - 1.0));
                    _mm_storeu_pd(floats.as_mut_ptr().add(2 * i), float);
                    let lane = i % 2;
                    // Whole numbers below 2⁵³: the sum is exact.
                    self.total[lane] = _mm_add_pd(self.total[lane], float);
                    self.squares[lane] = _mm_add_pd(self.squares[lane], _mm_mul_pd(float, float));
                    self.min[lane] = _mm_min_pd(self.min[lane], float);
                    self.max[lane] = _mm_max_pd(self.max[lane], float);
                }
                // Through memory: the compiler would take the registers apart, with twice the work.
                Some(Buckets(std::hint::black_box(floats)))
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
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod plain {
    use super::{Buckets, MOST, Run};

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
            if !ticks.iter().all(|ticks| (1..=MOST).contains(ticks)) {
                return None;
            }
            let floats = ticks.map(|t| t as f64);
            for (t, float) in ticks.iter().zip(floats) {
                self.run.total += t;
                self.run.squares += float * float;
                self.run.min = self.run.min.min(*t);
                self.run.max = self.run.max.max(*t);
            }
            Some(Buckets(floats))
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
    use crate::histogram::bucket;

    /// The vectors against the plain code, at every place of a value that does not fit.
    #[test]
    fn vectors_compute_what_plain_code_does() {
        let mut ticks = [1, 2, 50, 63, 1 << 20, (1 << 30) + 1, 7, MOST];
        let (mut fast, mut plain) = (Lanes::new(), plain::Lanes::new());
        for _ in 0..3 {
            ticks.rotate_left(3);
            let expected = ticks.map(bucket);
            for buckets in [fast.add(&ticks), plain.add(&ticks)] {
                assert!(buckets.unwrap().iter().eq(expected));
            }
        }
        let same = |fast: Run, plain: Run| {
            assert_eq!((fast.count, fast.total), (24, plain.total));
            assert_eq!((fast.min, fast.max), (1, MOST));
            assert_eq!((plain.min, plain.max), (1, MOST));
            assert!((fast.squares / plain.squares - 1.0).abs() < 1e-15);
        };
        same(fast.run(24), plain.run(24));
        for bad in [0, MOST + 1, LIMIT, u64::MAX, 1 << 63] {
            for place in 0..8 {
                let mut ticks = [100; 8];
                ticks[place] = bad;
                assert!(fast.add(&ticks).is_none());
                assert!(plain.add(&ticks).is_none());
            }
        }
        same(fast.run(24), plain.run(24));
    }
}
