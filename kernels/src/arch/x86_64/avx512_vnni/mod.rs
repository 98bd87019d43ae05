//! 512-bit vectors with instructions for integer dot products.

use std::arch::x86_64::*;
use std::convert::identity;

use super::{Avx512, compile_integers};
use crate::arch::panel::{PANEL_ROWS, Panel, Rows16};
use crate::arch::{integer, panel};
use crate::quant::{BlockQ8K, Matrix, Rounded, Rounded32};
use crate::simd_config::Unroll;

mod integers;

use self::integers::Pairs;

/// Proof that this CPU has AVX-512 VNNI, F16C, and all that [`Avx512`] is proof of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512Vnni(Avx512);

impl Avx512Vnni {
    /// The token, if the CPU has the instructions.
    pub(in crate::arch) fn new() -> Option<Self> {
        let avx512 = Avx512::new()?;
        let has = is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("f16c");
        has.then_some(Self(avx512))
    }

    /// The set that this one extends.
    pub(in crate::arch) fn avx512(self) -> Avx512 {
        self.0
    }
}

/// For many tokens: sixteen rows are one register.
impl Rows16 for Avx512Vnni {
    type Bytes = __m512i;
    type Words = __m512i;
    type Floats = __m512;

    const SIGNED_OFFSET: i32 = 128;

    #[inline(always)]
    fn zero_floats(self) -> __m512 {
        // SAFETY: `self` exists only where `new` found AVX-512F.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    fn splat(self, x: i32) -> __m512i {
        // SAFETY: `self` exists only where `new` found AVX-512F.
        unsafe { _mm512_set1_epi32(x) }
    }

    #[inline(always)]
    fn load(self, x: &[u8; 64]) -> __m512i {
        // SAFETY: `self` exists only where `new` found AVX-512F; `x` holds the 64 bytes read.
        unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, x: __m512, to: &mut [f32; PANEL_ROWS]) {
        // SAFETY: `self` exists only where `new` found AVX-512F; `to` has room for 16 numbers.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn dot(self, sums: __m512i, w: __m512i, a: [i8; 4]) -> __m512i {
        // SAFETY: `self` exists only where `new` found AVX-512 VNNI.
        unsafe { _mm512_dpbusd_epi32(sums, w, self.splat(bytemuck::cast(a))) }
    }

    #[inline(always)]
    fn dot_signed(self, sums: __m512i, w: __m512i, a: [i8; 4]) -> __m512i {
        // SAFETY: `self` exists only where `new` found AVX-512F. Flipping the top bit adds 128.
        unsafe {
            Rows16::dot(
                self,
                sums,
                _mm512_xor_si512(w, _mm512_set1_epi8(i8::MIN)),
                a,
            )
        }
    }

    #[inline(always)]
    fn dot_pairs(self, sums: __m512i, w: &[i16; 32], a: [i16; 2]) -> __m512i {
        let w = self.load(bytemuck::cast_ref(w));
        // SAFETY: `self` exists only where `new` found AVX-512 VNNI.
        unsafe { _mm512_dpwssd_epi32(sums, w, self.splat(bytemuck::cast(a))) }
    }

    #[inline(always)]
    fn add_product(self, sums: __m512i, x: __m512i, y: &[i32; PANEL_ROWS]) -> __m512i {
        let y = self.load(bytemuck::cast_ref(y));
        // SAFETY: `self` exists only where `new` found AVX-512F.
        unsafe { _mm512_add_epi32(sums, _mm512_mullo_epi32(x, y)) }
    }

    #[inline(always)]
    fn add_scaled(self, sums: __m512, d: &[f32; PANEL_ROWS], d_a: f32, totals: __m512i) -> __m512 {
        // SAFETY: `self` exists only where `new` found AVX-512F; `d` holds the 16 numbers read.
        unsafe {
            let d = _mm512_mul_ps(_mm512_loadu_ps(d.as_ptr()), _mm512_set1_ps(d_a));
            _mm512_add_ps(sums, _mm512_mul_ps(d, _mm512_cvtepi32_ps(totals)))
        }
    }
}

compile_integers!(
    Avx512Vnni,
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c",
    Pairs::new,
    identity,
    Unroll::AVX_512_VNNI
);
