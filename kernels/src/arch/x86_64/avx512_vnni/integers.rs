//! For one token: two rows are a register.

use std::arch::x86_64::*;

use super::Avx512Vnni;
use crate::arch::integer::{Halves, Int8, REGISTERS};
use crate::arch::x86_64::ymm;

/// The operations for one token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pairs {
    /// The upper half of a register. Not a constant for the compiler: it would move the halves
    /// together on the one port that the sums of the products need.
    upper: __mmask16,
    /// 16 in each byte. Not a constant for the compiler either: it would make a masked addition an
    /// or and a masked move.
    sixteens: __m512i,
}

impl Pairs {
    #[inline(always)]
    pub(super) fn new(_proof: Avx512Vnni) -> Self {
        let upper = std::hint::black_box(0xff00);
        // SAFETY: the token exists only where its `new` found AVX-512F.
        let sixteens = std::hint::black_box(unsafe { _mm512_set1_epi8(16) });
        Self { upper, sixteens }
    }
}

impl Int8<2> for Pairs {
    type Bytes = __m512i;
    type Shorts = __m512i;
    type Words = __m512i;
    type Floats = __m512;

    const SIGNED_OFFSET: i32 = 128;

    #[inline(always)]
    fn splat(self, x: i32) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    fn zero_floats(self) -> __m512 {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn store(self, x: __m512, to: &mut [[f32; 8]; 2]) {
        // SAFETY: the token exists only where its `new` found AVX-512F; `to` has room for 16 numbers.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr().cast(), x) }
    }

    #[inline(always)]
    fn load(self, [x, y]: [&[u8; 32]; 2]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F; `x` and `y` hold the 32 bytes read.
        unsafe {
            let x = _mm512_castsi256_si512(_mm256_loadu_si256(x.as_ptr().cast()));
            _mm512_inserti64x4::<1>(x, _mm256_loadu_si256(y.as_ptr().cast()))
        }
    }

    #[inline(always)]
    fn nibbles(self, [x, y]: [&[u8; 16]; 2]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F; `x` and `y` hold the 16 bytes read.
        unsafe {
            let x = _mm512_broadcast_i32x4(_mm_loadu_si128(x.as_ptr().cast()));
            let y = _mm_loadu_si128(y.as_ptr().cast());
            let both = _mm512_mask_broadcast_i32x4(x, self.upper, y);
            let shifted = _mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
            _mm512_and_si512(shifted, _mm512_set1_epi8(15))
        }
    }

    #[inline(always)]
    fn or_sixteens(self, x: __m512i, [low, high]: [[u8; 4]; 2]) -> __m512i {
        // No `map` over the array: where it was not inlined, a product took twice as long.
        let low = u64::from(u32::from_le_bytes(low));
        let high = u64::from(u32::from_le_bytes(high));
        // SAFETY: the token exists only where its `new` found AVX-512BW.
        unsafe { _mm512_mask_add_epi8(x, low | high << 32, x, self.sixteens) }
    }

    #[inline(always)]
    fn or(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn shift_right<const BY: i32>(self, x: __m512i, mask: u8) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512BW.
        unsafe {
            let shifted = _mm512_srl_epi16(x, _mm_cvtsi32_si128(BY));
            _mm512_and_si512(shifted, _mm512_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn shift_left<const BY: i32>(self, x: __m512i, mask: u8) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512BW.
        unsafe {
            let shifted = _mm512_sll_epi16(x, _mm_cvtsi32_si128(BY));
            _mm512_and_si512(shifted, _mm512_set1_epi8(mask as i8))
        }
    }

    #[inline(always)]
    fn dot(self, sums: __m512i, w: __m512i, a: &[i8; 32]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512 VNNI.
        unsafe { _mm512_dpbusd_epi32(sums, w, self.twice(bytemuck::cast_ref(a))) }
    }

    #[inline(always)]
    fn dot_signed(self, sums: __m512i, w: __m512i, a: &[i8; 32]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F. Flipping the top bit adds 128.
        let w = unsafe { _mm512_xor_si512(w, _mm512_set1_epi8(i8::MIN)) };
        Int8::dot(self, sums, w, a)
    }

    #[inline(always)]
    fn dot_scaled(
        self,
        sums: __m512i,
        w: __m512i,
        a: &[i8; 32],
        scales: __m512i,
        [first, last]: [usize; 2],
    ) -> __m512i {
        let [first, last] = [first as i16, last as i16];
        // SAFETY: the token exists only where its `new` found AVX-512 VNNI and BW. Two products of at most
        // 63 * 127 fit an `i16`.
        unsafe {
            // The scales of the second row come after the sixteen of the first.
            let of_first = _mm256_set_m128i(_mm_set1_epi16(last), _mm_set1_epi16(first));
            let of_second = _mm256_add_epi16(of_first, _mm256_set1_epi16(16));
            let at = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(of_first), of_second);
            let pairs = _mm512_maddubs_epi16(w, self.twice(bytemuck::cast_ref(a)));
            _mm512_dpwssd_epi32(sums, pairs, _mm512_permutexvar_epi16(at, scales))
        }
    }

    #[inline(always)]
    fn dot_shorts(self, x: __m512i, y: &[i16; 16]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512BW.
        unsafe { _mm512_madd_epi16(x, self.twice(bytemuck::cast_ref(y))) }
    }

    #[inline(always)]
    fn six_bits(self, [x, y]: [&[u8; 16]; 2]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512BW and AVX2; `x` and `y` hold the 16
        // bytes read.
        unsafe {
            // As in the 256-bit set, of two rows.
            let words = _mm256_set_m128i(
                _mm_loadu_si128(y.as_ptr().cast()),
                _mm_loadu_si128(x.as_ptr().cast()),
            );
            let low = _mm256_shuffle_epi32::<0b11_10_11_01>(words);
            let low = _mm256_srlv_epi32(low, _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 0, 4));
            let low = _mm256_and_si256(low, _mm256_set1_epi64x(0x0f0f_0f0f_3f3f_3f3f));
            let top = _mm256_srli_epi32::<2>(_mm256_shuffle_epi32::<0b10_00_01_00>(words));
            let top = _mm256_and_si256(top, _mm256_set1_epi64x(0x3030_3030 << 32));
            _mm512_cvtepu8_epi16(_mm256_or_si256(low, top))
        }
    }

    #[inline(always)]
    fn extend(self, [x, y]: [&[i8; 16]; 2]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512BW; `x` and `y` hold the 16 bytes read.
        unsafe {
            _mm512_cvtepi8_epi16(_mm256_set_m128i(
                _mm_loadu_si128(y.as_ptr().cast()),
                _mm_loadu_si128(x.as_ptr().cast()),
            ))
        }
    }

    #[inline(always)]
    fn totals(self, x: [__m512i; REGISTERS]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe {
            let low = add_four([x[0], x[1], x[2], x[3]]);
            let high = add_four([x[4], x[5], x[6], x[7]]);
            // A row's two quarters lie side by side.
            _mm512_add_epi32(
                _mm512_shuffle_i32x4::<0b10_00_10_00>(low, high),
                _mm512_shuffle_i32x4::<0b11_01_11_01>(low, high),
            )
        }
    }

    #[inline(always)]
    fn interleave(self, x: [__m512i; REGISTERS]) -> [__m512i; REGISTERS] {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe {
            let low = interleave_four([x[0], x[1], x[2], x[3]]);
            let high = interleave_four([x[4], x[5], x[6], x[7]]);
            let mut out = x;
            for j in 0..4 {
                out[j] = _mm512_shuffle_i32x4::<0b10_00_10_00>(low[j], high[j]);
                out[j + 4] = _mm512_shuffle_i32x4::<0b11_01_11_01>(low[j], high[j]);
            }
            out
        }
    }

    #[inline(always)]
    fn store_bytes(self, x: __m512i, to: &mut [[u8; 32]; 2]) {
        // SAFETY: the token exists only where its `new` found AVX-512F; `to` has room for the 64 bytes.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), x) }
    }

    #[inline(always)]
    fn bytes_of(self, x: __m512i) -> __m512i {
        x
    }

    #[inline(always)]
    fn minus(self, x: __m512i, y: __m512i) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe { _mm512_sub_epi32(x, y) }
    }

    #[inline(always)]
    fn times_32(self, x: __m512i) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe { _mm512_slli_epi32::<5>(x) }
    }

    #[inline(always)]
    fn halves(self, x: &Halves<2>) -> __m512 {
        // SAFETY: the token exists only where its `new` found AVX-512F; `x` holds the 32 bytes read.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn add_scaled(self, sums: __m512, d: __m512, d_a: f32, totals: __m512i) -> __m512 {
        // SAFETY: the token exists only where its `new` found AVX-512F.
        unsafe {
            let d = _mm512_mul_ps(d, _mm512_set1_ps(d_a));
            _mm512_add_ps(sums, _mm512_mul_ps(d, _mm512_cvtepi32_ps(totals)))
        }
    }

    #[inline(always)]
    fn prefetch(self, base: &[u8], offset: usize, len: usize) {
        ymm::prefetch(base, offset, len);
    }
}

impl Pairs {
    /// The same bytes for both rows.
    #[inline(always)]
    fn twice(self, x: &[u8; 32]) -> __m512i {
        // SAFETY: the token exists only where its `new` found AVX-512F; `x` holds the 32 bytes read.
        unsafe { _mm512_broadcast_i64x4(_mm256_loadu_si256(x.as_ptr().cast())) }
    }
}

/// In each quarter the sums of the four registers' quarters.
///
/// # Safety
/// The CPU has AVX-512F.
#[inline(always)]
unsafe fn add_four([a, b, c, d]: [__m512i; 4]) -> __m512i {
    // SAFETY: AVX-512F by this function's own condition.
    unsafe {
        let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
    }
}

/// In each quarter the four words of the four registers: the first of all, then the second, and so
/// on.
///
/// # Safety
/// The CPU has AVX-512F.
#[inline(always)]
unsafe fn interleave_four([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    // SAFETY: AVX-512F by this function's own condition.
    unsafe {
        let ab = [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)];
        let cd = [_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d)];
        [
            _mm512_unpacklo_epi64(ab[0], cd[0]),
            _mm512_unpackhi_epi64(ab[0], cd[0]),
            _mm512_unpacklo_epi64(ab[1], cd[1]),
            _mm512_unpackhi_epi64(ab[1], cd[1]),
        ]
    }
}
