//! Bytes multiplied in two steps: to pairs of products in 16 bits, then to four in 32.

use std::arch::x86_64::*;

use super::Avx2;
use crate::arch::x86_64::ymm::Multiply;

impl Multiply for Avx2 {
    const SIGNED_OFFSET: i32 = 0;

    #[inline(always)]
    fn dot(self, sums: __m256i, w: __m256i, a: __m256i) -> __m256i {
        // SAFETY: `self` exists only where `new` found AVX2. Two products of at most 127 * 128 fit
        // an `i16`, so nothing saturates.
        unsafe { self.dot_pairs(sums, _mm256_maddubs_epi16(w, a), _mm256_set1_epi16(1)) }
    }

    /// The instruction takes one side unsigned: the sign moves over to the other. Two products of
    /// at most 128 * 127 fit an `i16`.
    #[inline(always)]
    fn dot_signed(self, sums: __m256i, w: __m256i, a: __m256i) -> __m256i {
        // SAFETY: `self` exists only where `new` found AVX2.
        unsafe { self.dot(sums, _mm256_abs_epi8(w), _mm256_sign_epi8(a, w)) }
    }

    #[inline(always)]
    fn dot_pairs(self, sums: __m256i, x: __m256i, y: __m256i) -> __m256i {
        // SAFETY: `self` exists only where `new` found AVX2.
        unsafe { _mm256_add_epi32(sums, _mm256_madd_epi16(x, y)) }
    }
}
