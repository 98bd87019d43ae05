//! Integer dot products on 256-bit vectors, for every way to multiply bytes that x86 has.

use std::arch::x86_64::*;

use crate::arch::integer::{Halves, Int8, REGISTERS};
use crate::arch::panel::{PANEL_ROWS, Rows16};

/// An instruction set's way to multiply and add small integers. A token that implements this is
/// proof of AVX2, F16C and what its own methods use.
pub(in crate::arch) trait Multiply: Copy {
    /// What [`dot_signed`](Self::dot_signed) adds to each weight.
    const SIGNED_OFFSET: i32;

    /// Adds four products of bytes to each `i32` of `sums`; `w` is in 0..=127.
    fn dot(self, sums: __m256i, w: __m256i, a: __m256i) -> __m256i;

    /// The same for `w` in -128..=127, but with [`SIGNED_OFFSET`](Self::SIGNED_OFFSET) added to each.
    /// `a` is in -127..=127.
    fn dot_signed(self, sums: __m256i, w: __m256i, a: __m256i) -> __m256i;

    /// Adds two products of `i16` to each `i32` of `sums`.
    fn dot_pairs(self, sums: __m256i, x: __m256i, y: __m256i) -> __m256i;

    /// See [`Int8::or_sixteens`].
    #[inline(always)]
    fn or_sixteens(self, x: __m256i, bits: i32) -> __m256i {
        // SAFETY: `self` is proof of AVX2.
        unsafe {
            // Byte `i` becomes the byte that holds its bit, then all ones where the bit is set.
            let bytes = _mm256_setr_epi64x(
                0,
                0x0101_0101_0101_0101,
                0x0202_0202_0202_0202,
                0x0303_0303_0303_0303,
            );
            let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
            let spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), bytes);
            let set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit), bit);
            _mm256_or_si256(x, _mm256_and_si256(set, _mm256_set1_epi8(16)))
        }
    }
}

/// The operations of the loops, on the multiplications of a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ymm<M>(pub(super) M);

/// One row is a register.
impl<M: Multiply> Int8<1> for Ymm<M> {
    type Bytes = __m256i;
    /// The first eight in both halves, the last eight in both halves: scales are looked up in each.
    type Shorts = [__m256i; 2];
    type Words = __m256i;
    type Floats = __m256;

    const SIGNED_OFFSET: i32 = M::SIGNED_OFFSET;

    #[inline(always)]
    fn splat(self, x: i32) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_set1_epi32(x) }
    }

    #[inline(always)]
    fn zero_floats(self) -> __m256 {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    fn store(self, x: __m256, [to]: &mut [[f32; 8]; 1]) {
        // SAFETY: the token is proof of AVX2; `to` has room for the 8 numbers.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn load(self, [x]: [&[u8; 32]; 1]) -> __m256i {
        // SAFETY: the token is proof of AVX2; `x` holds the 32 bytes read.
        unsafe { _mm256_loadu_si256(x.as_ptr().cast()) }
    }

    #[inline(always)]
    fn nibbles(self, [x]: [&[u8; 16]; 1]) -> __m256i {
        // SAFETY: the token is proof of AVX2; `x` holds the 16 bytes read.
        unsafe {
            let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(x.as_ptr().cast()));
            let shifted = _mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4));
            _mm256_and_si256(shifted, _mm256_set1_epi8(15))
        }
    }

    #[inline(always)]
    fn or_sixteens(self, x: __m256i, [bits]: [[u8; 4]; 1]) -> __m256i {
        self.0.or_sixteens(x, i32::from_le_bytes(bits))
    }

    #[inline(always)]
    fn or(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_or_si256(a, b) }
    }

    #[inline(always)]
    fn shift_right<const BY: i32>(self, x: __m256i, mask: u8) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_and_si256(_mm256_srli_epi16::<BY>(x), _mm256_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    fn shift_left<const BY: i32>(self, x: __m256i, mask: u8) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_and_si256(_mm256_slli_epi16::<BY>(x), _mm256_set1_epi8(mask as i8)) }
    }

    #[inline(always)]
    fn dot(self, sums: __m256i, w: __m256i, a: &[i8; 32]) -> __m256i {
        let a = Int8::load(self, [bytemuck::cast_ref(a)]);
        self.0.dot(sums, w, a)
    }

    #[inline(always)]
    fn dot_signed(self, sums: __m256i, w: __m256i, a: &[i8; 32]) -> __m256i {
        let a = Int8::load(self, [bytemuck::cast_ref(a)]);
        self.0.dot_signed(sums, w, a)
    }

    #[inline(always)]
    fn dot_scaled(
        self,
        sums: __m256i,
        w: __m256i,
        a: &[i8; 32],
        scales: [__m256i; 2],
        at: [usize; 2],
    ) -> __m256i {
        let a = Int8::load(self, [bytemuck::cast_ref(a)]);
        // Both bytes of an `i16`, eight times.
        let bytes = at.map(|at| 0x0100 + 0x0202 * (at as i16 % 8));
        // SAFETY: the token is proof of AVX2. Two products of at most 63 * 127 fit an `i16`.
        unsafe {
            let bytes = _mm256_set_m128i(_mm_set1_epi16(bytes[1]), _mm_set1_epi16(bytes[0]));
            let scale = _mm256_shuffle_epi8(scales[at[0] / 8], bytes);
            self.0.dot_pairs(sums, _mm256_maddubs_epi16(w, a), scale)
        }
    }

    #[inline(always)]
    fn dot_shorts(self, x: [__m256i; 2], y: &[i16; 16]) -> __m256i {
        let x = self.bytes_of(x);
        // SAFETY: the token is proof of AVX2; `y` holds the 32 bytes read.
        unsafe { _mm256_madd_epi16(x, _mm256_loadu_si256(y.as_ptr().cast())) }
    }

    #[inline(always)]
    fn six_bits(self, [head]: [&[u8; 16]; 1]) -> [__m256i; 2] {
        // SAFETY: the token is proof of AVX2; `head` holds the 16 bytes read.
        unsafe {
            // The four words are two halves, then three of four packed numbers, `a`, `b` and `c`. Six
            // bits of a number are in `a` or `b`; or four in `c`, and two on top of those in `a` or `b`.
            let words = _mm_loadu_si128(head.as_ptr().cast());
            let low = _mm_srlv_epi32(
                _mm_shuffle_epi32::<0b11_10_11_01>(words),
                _mm_setr_epi32(0, 0, 0, 4),
            );
            let low = _mm_and_si128(
                low,
                _mm_setr_epi32(0x3f3f_3f3f, 0x0f0f_0f0f, 0x3f3f_3f3f, 0x0f0f_0f0f),
            );
            let top = _mm_srli_epi32::<2>(_mm_shuffle_epi32::<0b10_00_01_00>(words));
            let top = _mm_and_si128(top, _mm_setr_epi32(0, 0x3030_3030, 0, 0x3030_3030));
            both_halves(_mm256_cvtepu8_epi16(_mm_or_si128(low, top)))
        }
    }

    #[inline(always)]
    fn extend(self, [x]: [&[i8; 16]; 1]) -> [__m256i; 2] {
        // SAFETY: the token is proof of AVX2; `x` holds the 16 bytes read.
        unsafe { both_halves(_mm256_cvtepi8_epi16(_mm_loadu_si128(x.as_ptr().cast()))) }
    }

    #[inline(always)]
    fn totals(self, x: [__m256i; REGISTERS]) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe {
            let low =
                _mm256_hadd_epi32(_mm256_hadd_epi32(x[0], x[1]), _mm256_hadd_epi32(x[2], x[3]));
            let high =
                _mm256_hadd_epi32(_mm256_hadd_epi32(x[4], x[5]), _mm256_hadd_epi32(x[6], x[7]));
            // Each half of `low` has half a total of rows 0 to 3, each of `high` of rows 4 to 7.
            _mm256_add_epi32(
                _mm256_permute2x128_si256::<0x20>(low, high),
                _mm256_permute2x128_si256::<0x31>(low, high),
            )
        }
    }

    #[inline(always)]
    fn interleave(self, x: [__m256i; REGISTERS]) -> [__m256i; REGISTERS] {
        // SAFETY: the token is proof of AVX2.
        unsafe {
            let low = interleave_four([x[0], x[1], x[2], x[3]]);
            let high = interleave_four([x[4], x[5], x[6], x[7]]);
            let mut out = x;
            for j in 0..4 {
                out[j] = _mm256_permute2x128_si256::<0x20>(low[j], high[j]);
                out[j + 4] = _mm256_permute2x128_si256::<0x31>(low[j], high[j]);
            }
            out
        }
    }

    #[inline(always)]
    fn store_bytes(self, x: __m256i, [to]: &mut [[u8; 32]; 1]) {
        // SAFETY: the token is proof of AVX2; `to` has room for the 32 bytes.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), x) }
    }

    #[inline(always)]
    fn bytes_of(self, [low, high]: [__m256i; 2]) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_blend_epi32::<0xf0>(low, high) }
    }

    #[inline(always)]
    fn minus(self, x: __m256i, y: __m256i) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_sub_epi32(x, y) }
    }

    #[inline(always)]
    fn times_32(self, x: __m256i) -> __m256i {
        // SAFETY: the token is proof of AVX2.
        unsafe { _mm256_slli_epi32::<5>(x) }
    }

    #[inline(always)]
    fn halves(self, [x]: &Halves<1>) -> __m256 {
        // SAFETY: the token is proof of F16C; `x` holds the 16 bytes read.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn add_scaled(self, sums: __m256, d: __m256, d_a: f32, totals: __m256i) -> __m256 {
        // SAFETY: the token is proof of AVX2.
        unsafe {
            let d = _mm256_mul_ps(d, _mm256_set1_ps(d_a));
            _mm256_add_ps(sums, _mm256_mul_ps(d, _mm256_cvtepi32_ps(totals)))
        }
    }

    #[inline(always)]
    fn prefetch(self, base: &[u8], offset: usize, len: usize) {
        prefetch(base, offset, len);
    }
}

/// The first half twice, and the second half twice.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn both_halves(x: __m256i) -> [__m256i; 2] {
    // SAFETY: AVX2 by this function's own condition.
    unsafe {
        [
            _mm256_permute4x64_epi64::<0b01_00_01_00>(x),
            _mm256_permute4x64_epi64::<0b11_10_11_10>(x),
        ]
    }
}

/// In each half the four words of the four registers: the first of all, then the second, and so on.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn interleave_four([a, b, c, d]: [__m256i; 4]) -> [__m256i; 4] {
    // SAFETY: AVX2 by this function's own condition.
    unsafe {
        let ab = [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)];
        let cd = [_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d)];
        [
            _mm256_unpacklo_epi64(ab[0], cd[0]),
            _mm256_unpackhi_epi64(ab[0], cd[0]),
            _mm256_unpacklo_epi64(ab[1], cd[1]),
            _mm256_unpackhi_epi64(ab[1], cd[1]),
        ]
    }
}

/// See [`Int8::prefetch`].
#[inline(always)]
pub(super) fn prefetch(base: &[u8], offset: usize, len: usize) {
    let start = base.as_ptr().cast::<i8>().wrapping_add(offset);
    for line in (0..len).step_by(64) {
        // SAFETY: x86-64 has the instruction, which reads nothing and faults at no address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(line)) }
    }
}

/// Sixteen rows are two registers.
impl<M: Multiply> Rows16 for Ymm<M> {
    type Bytes = [__m256i; 2];
    type Words = [__m256i; 2];
    type Floats = [__m256; 2];

    const SIGNED_OFFSET: i32 = M::SIGNED_OFFSET;

    #[inline(always)]
    fn zero_floats(self) -> [__m256; 2] {
        // SAFETY: the token is proof of AVX2.
        unsafe { [_mm256_setzero_ps(); 2] }
    }

    #[inline(always)]
    fn splat(self, x: i32) -> [__m256i; 2] {
        // SAFETY: the token is proof of AVX2.
        unsafe { [_mm256_set1_epi32(x); 2] }
    }

    #[inline(always)]
    fn load(self, x: &[u8; 64]) -> [__m256i; 2] {
        let halves = x.as_chunks::<32>().0;
        [
            Int8::load(self, [&halves[0]]),
            Int8::load(self, [&halves[1]]),
        ]
    }

    #[inline(always)]
    fn store(self, x: [__m256; 2], to: &mut [f32; PANEL_ROWS]) {
        let (low, high) = to.split_at_mut(8);
        // SAFETY: the token is proof of AVX2; each half has room for the 8 numbers.
        unsafe {
            _mm256_storeu_ps(low.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(high.as_mut_ptr(), x[1]);
        }
    }

    #[inline(always)]
    fn dot(self, sums: [__m256i; 2], w: [__m256i; 2], a: [i8; 4]) -> [__m256i; 2] {
        let [a, _] = Rows16::splat(self, bytemuck::cast(a));
        [self.0.dot(sums[0], w[0], a), self.0.dot(sums[1], w[1], a)]
    }

    #[inline(always)]
    fn dot_signed(self, sums: [__m256i; 2], w: [__m256i; 2], a: [i8; 4]) -> [__m256i; 2] {
        let [a, _] = Rows16::splat(self, bytemuck::cast(a));
        [
            self.0.dot_signed(sums[0], w[0], a),
            self.0.dot_signed(sums[1], w[1], a),
        ]
    }

    #[inline(always)]
    fn dot_pairs(self, sums: [__m256i; 2], w: &[i16; 32], a: [i16; 2]) -> [__m256i; 2] {
        let w = Rows16::load(self, bytemuck::cast_ref(w));
        let [a, _] = Rows16::splat(self, bytemuck::cast(a));
        [
            self.0.dot_pairs(sums[0], w[0], a),
            self.0.dot_pairs(sums[1], w[1], a),
        ]
    }

    #[inline(always)]
    fn add_product(
        self,
        sums: [__m256i; 2],
        x: [__m256i; 2],
        y: &[i32; PANEL_ROWS],
    ) -> [__m256i; 2] {
        let y = Rows16::load(self, bytemuck::cast_ref(y));
        // SAFETY: the token is proof of AVX2.
        unsafe {
            [
                _mm256_add_epi32(sums[0], _mm256_mullo_epi32(x[0], y[0])),
                _mm256_add_epi32(sums[1], _mm256_mullo_epi32(x[1], y[1])),
            ]
        }
    }

    #[inline(always)]
    fn add_scaled(
        self,
        sums: [__m256; 2],
        d: &[f32; PANEL_ROWS],
        d_a: f32,
        totals: [__m256i; 2],
    ) -> [__m256; 2] {
        let (low, high) = d.split_at(8);
        // SAFETY: the token is proof of AVX2; each half holds the 8 numbers read.
        let d = unsafe {
            [
                _mm256_loadu_ps(low.as_ptr()),
                _mm256_loadu_ps(high.as_ptr()),
            ]
        };
        [
            Int8::add_scaled(self, sums[0], d[0], d_a, totals[0]),
            Int8::add_scaled(self, sums[1], d[1], d_a, totals[1]),
        ]
    }
}
