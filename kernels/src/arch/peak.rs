//! Loops that do one thing only, as fast as the CPU can: what kernels are measured against.
//!
//! Their results tell how much was done, so that a compiler that did less would be found out.

use super::Isa;
use super::all::{LANES, Simd};

/// The sum of `data` modulo 2^64: each number is read once. Chains of its own are the compiler's to make: an
/// array of sums became shuffles, at two thirds of the speed (measured in the cache).
#[inline(always)]
fn sum_of(data: &[u64]) -> u64 {
    data.iter().fold(0, |sum, number| sum.wrapping_add(*number))
}

/// `x = x * factor + addend`, `iterations` times from 0, in `CHAINS` vectors that don't wait for each
/// other: the sum of them all.
#[inline(always)]
fn multiply_adds<S: Simd, const CHAINS: usize>(
    simd: S,
    iterations: usize,
    factor: f32,
    addend: f32,
) -> f64 {
    let (factor, addend) = (simd.splat(factor), simd.splat(addend));
    let mut chains = [simd.splat(0.0); CHAINS];
    for _ in 0..iterations {
        for chain in &mut chains {
            *chain = simd.mul_add(*chain, factor, addend);
        }
    }
    let totals = chains.into_iter().map(|chain| simd.total(chain));
    totals.map(f64::from).sum()
}

/// Chains of [`multiply_adds`]: a multiply-add takes four or five cycles and two may begin in each, so
/// ten have to be on their way; in registers of 512, 256 and (SSE2, NEON) 128 bits.
const AVX512_CHAINS: usize = 12;
const AVX2_CHAINS: usize = 6;
const PORTABLE_CHAINS: usize = 3;

impl Isa {
    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Isa::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) | Isa::AvxVnni(_) => "AVX2 and FMA",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(_) | Isa::Avx512Vnni(_) => "AVX-512",
        }
    }

    /// The sum of `data` modulo 2^64.
    pub(crate) fn sum_of(self, data: &[u64]) -> u64 {
        match self {
            Isa::Portable(_) => sum_of(data),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => x86_64::sum_of_avx2(avx2, data),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni(vnni) => x86_64::sum_of_avx2(vnni.avx2(), data),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(avx512) => x86_64::sum_of_avx512(avx512, data),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(vnni) => x86_64::sum_of_avx512(vnni.avx512(), data),
        }
    }

    /// `x = x * factor + addend`, `iterations` times from 0, in as many lanes as
    /// [`lanes`](Self::lanes) says: their sum.
    pub(crate) fn multiply_adds(self, iterations: usize, factor: f32, addend: f32) -> f64 {
        match self {
            Isa::Portable(simd) => {
                multiply_adds::<_, PORTABLE_CHAINS>(simd, iterations, factor, addend)
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => x86_64::multiply_adds_avx2(avx2, iterations, factor, addend),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni(vnni) => {
                x86_64::multiply_adds_avx2(vnni.avx2(), iterations, factor, addend)
            }
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(avx512) => x86_64::multiply_adds_avx512(avx512, iterations, factor, addend),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(vnni) => {
                x86_64::multiply_adds_avx512(vnni.avx512(), iterations, factor, addend)
            }
        }
    }

    /// Multiply-adds of one iteration of [`multiply_adds`](Self::multiply_adds).
    pub(crate) fn lanes(self) -> usize {
        LANES
            * match self {
                Isa::Portable(_) => PORTABLE_CHAINS,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2(_) | Isa::AvxVnni(_) => AVX2_CHAINS,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512(_) | Isa::Avx512Vnni(_) => AVX512_CHAINS,
            }
    }
}

/// Bytes that [`ByteDot::dot`] multiplies: they stay in the first-level cache.
pub(crate) const DOT_BYTES: usize = 16 << 10;

/// How this CPU multiplies bytes and adds the products up to 32 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ByteDot {
    /// `vpdpbusd` on 512 bits.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(super::Avx512Vnni),
    /// `vpdpbusd` on 256 bits.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(super::AvxVnni),
    /// `vpmaddubsw`, `vpmaddwd` and `vpaddd` on 256 bits.
    #[cfg(target_arch = "x86_64")]
    Avx2(super::Avx2),
}

impl ByteDot {
    /// Every way that this CPU has, the best last; none where there is no such instruction.
    pub(crate) fn available() -> Vec<ByteDot> {
        #[cfg(target_arch = "x86_64")]
        {
            let ways = [
                super::Avx2::new().map(ByteDot::Avx2),
                super::AvxVnni::new().map(ByteDot::AvxVnni),
                super::Avx512Vnni::new().map(ByteDot::Avx512Vnni),
            ];
            ways.into_iter().flatten().collect()
        }
        #[cfg(not(target_arch = "x86_64"))]
        Vec::new()
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            ByteDot::Avx512Vnni(_) => "AVX-512 VNNI",
            #[cfg(target_arch = "x86_64")]
            ByteDot::AvxVnni(_) => "AVX-VNNI",
            #[cfg(target_arch = "x86_64")]
            ByteDot::Avx2(_) => "AVX2",
        }
    }

    /// `rounds` times the sum of `factor * bytes[i]`.
    ///
    /// Exact while `rounds * 256 * factor * 128`, the most that one of the sums can come to, fits 31
    /// bits, and `factor` is 128 at most (AVX2 adds
    /// pairs of products in 16 bits).
    pub(crate) fn dot(self, rounds: usize, factor: u8, bytes: &[i8; DOT_BYTES]) -> i64 {
        #[cfg(target_arch = "x86_64")]
        match self {
            ByteDot::Avx512Vnni(vnni) => x86_64::dot_avx512_vnni(vnni, rounds, factor, bytes),
            ByteDot::AvxVnni(vnni) => x86_64::dot_avx_vnni(vnni, rounds, factor, bytes),
            ByteDot::Avx2(avx2) => x86_64::dot_avx2(avx2, rounds, factor, bytes),
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (rounds, factor, bytes);
            match self {}
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_add_epi32, _mm256_dpbusd_avx_epi32, _mm256_loadu_si256,
        _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi8, _mm256_set1_epi16,
        _mm256_setzero_si256, _mm256_storeu_si256, _mm512_dpbusd_epi32, _mm512_loadu_si512,
        _mm512_set1_epi8, _mm512_setzero_si512, _mm512_storeu_si512,
    };
    use std::hint::black_box;

    use super::super::{Avx2, Avx512, Avx512Vnni, AvxVnni};
    use super::{AVX2_CHAINS, AVX512_CHAINS, DOT_BYTES, multiply_adds, sum_of};

    pub(super) fn sum_of_avx2(_proof: Avx2, data: &[u64]) -> u64 {
        #[target_feature(enable = "avx2")]
        fn compiled(data: &[u64]) -> u64 {
            sum_of(data)
        }
        // SAFETY: an `Avx2` exists only where its `new` found AVX2.
        unsafe { compiled(data) }
    }

    pub(super) fn sum_of_avx512(_proof: Avx512, data: &[u64]) -> u64 {
        #[target_feature(enable = "avx512f")]
        fn compiled(data: &[u64]) -> u64 {
            sum_of(data)
        }
        // SAFETY: an `Avx512` exists only where its `new` found AVX-512F.
        unsafe { compiled(data) }
    }

    pub(super) fn multiply_adds_avx2(simd: Avx2, n: usize, factor: f32, addend: f32) -> f64 {
        #[target_feature(enable = "avx2,fma")]
        fn compiled(simd: Avx2, n: usize, factor: f32, addend: f32) -> f64 {
            multiply_adds::<_, AVX2_CHAINS>(simd, n, factor, addend)
        }
        // SAFETY: an `Avx2` exists only where its `new` found AVX2 and FMA.
        unsafe { compiled(simd, n, factor, addend) }
    }

    pub(super) fn multiply_adds_avx512(simd: Avx512, n: usize, factor: f32, addend: f32) -> f64 {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        fn compiled(simd: Avx512, n: usize, factor: f32, addend: f32) -> f64 {
            multiply_adds::<_, AVX512_CHAINS>(simd, n, factor, addend)
        }
        // SAFETY: an `Avx512` exists only where its `new` found every one of these.
        unsafe { compiled(simd, n, factor, addend) }
    }

    /// Sums of products that are on their way at a time.
    const SUMS: usize = 8;

    pub(super) fn dot_avx512_vnni(
        _proof: Avx512Vnni,
        rounds: usize,
        factor: u8,
        bytes: &[i8; DOT_BYTES],
    ) -> i64 {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        fn compiled(rounds: usize, factor: u8, bytes: &[i8; DOT_BYTES]) -> i64 {
            let factor = _mm512_set1_epi8(factor as i8);
            let mut sums = [_mm512_setzero_si512(); SUMS];
            for _ in 0..rounds {
                // Each round reads anew: else its sum might be made once and multiplied.
                let (groups, _) = black_box(bytes).as_chunks::<{ SUMS * 64 }>();
                for group in groups {
                    let (vectors, _) = group.as_chunks::<64>();
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        // SAFETY: the load reads the 64 bytes of `vector`, from anywhere.
                        let vector =
                            unsafe { _mm512_loadu_si512(vector.as_ptr().cast::<__m512i>()) };
                        *sum = _mm512_dpbusd_epi32(*sum, factor, vector);
                    }
                }
            }
            let mut total = 0;
            for sum in sums {
                let mut lanes = [0i32; 16];
                // SAFETY: the store writes the 64 bytes of `lanes`, anywhere.
                unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast::<__m512i>(), sum) };
                total += lanes.iter().map(|&lane| i64::from(lane)).sum::<i64>();
            }
            total
        }
        // SAFETY: an `Avx512Vnni` exists only where its `new` found these.
        unsafe { compiled(rounds, factor, bytes) }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[i8; 32]) -> __m256i {
        // SAFETY: it reads the 32 bytes, from anywhere.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast::<__m256i>()) }
    }

    /// Of the eight lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn total(sum: __m256i) -> i64 {
        let mut lanes = [0i32; 8];
        // SAFETY: it writes the 32 bytes of `lanes`, anywhere.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast::<__m256i>(), sum) };
        lanes.iter().map(|&lane| i64::from(lane)).sum()
    }

    /// `rounds` times the sum of products, `$step` being one vector's part of a sum.
    macro_rules! dot_256 {
        ($rounds:ident, $factor:ident, $bytes:ident, $step:expr) => {{
            let factor = _mm256_set1_epi8($factor as i8);
            let mut sums = [_mm256_setzero_si256(); SUMS];
            for _ in 0..$rounds {
                // Each round reads anew: else its sum might be made once and multiplied.
                let (groups, _) = black_box($bytes).as_chunks::<{ SUMS * 32 }>();
                for group in groups {
                    let (vectors, _) = group.as_chunks::<32>();
                    for (sum, vector) in sums.iter_mut().zip(vectors) {
                        *sum = $step(*sum, factor, load(vector));
                    }
                }
            }
            sums.into_iter().map(|sum| total(sum)).sum()
        }};
    }

    pub(super) fn dot_avx_vnni(
        _proof: AvxVnni,
        rounds: usize,
        factor: u8,
        bytes: &[i8; DOT_BYTES],
    ) -> i64 {
        #[target_feature(enable = "avx2,avxvnni")]
        fn compiled(rounds: usize, factor: u8, bytes: &[i8; DOT_BYTES]) -> i64 {
            dot_256!(rounds, factor, bytes, |sum, factor, vector| {
                _mm256_dpbusd_avx_epi32(sum, factor, vector)
            })
        }
        // SAFETY: an `AvxVnni` exists only where its `new` found these.
        unsafe { compiled(rounds, factor, bytes) }
    }

    pub(super) fn dot_avx2(_: Avx2, rounds: usize, factor: u8, bytes: &[i8; DOT_BYTES]) -> i64 {
        #[target_feature(enable = "avx2")]
        fn compiled(rounds: usize, factor: u8, bytes: &[i8; DOT_BYTES]) -> i64 {
            let ones = _mm256_set1_epi16(1);
            dot_256!(rounds, factor, bytes, |sum, factor, vector| {
                let pairs = _mm256_maddubs_epi16(factor, vector);
                _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones))
            })
        }
        // SAFETY: an `Avx2` exists only where its `new` found AVX2.
        unsafe { compiled(rounds, factor, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and iterations; fewer in Miri, which takes a thousand times as long.
    const MOST: usize = if cfg!(miri) { 100 } else { 5000 };

    #[test]
    fn every_number_is_read_once() {
        let data: Vec<u64> = (0..MOST as u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        for isa in Isa::available() {
            for len in [0, 1, 31, 32, 33, MOST - 1, MOST] {
                let part = &data[MOST - len..];
                let naive = part.iter().fold(0u64, |sum, n| sum.wrapping_add(*n));
                assert_eq!(isa.sum_of(part), naive, "{isa:?}, {len}");
            }
        }
    }

    /// With factor and addend 1, the sum is the number of multiply-adds; with a half it comes to rest
    /// at 2 in each lane.
    #[test]
    fn the_sum_counts_the_multiply_adds() {
        for isa in Isa::available() {
            for n in [0, 1, MOST] {
                let count = (n * isa.lanes()) as f64;
                assert_eq!(isa.multiply_adds(n, 1.0, 1.0), count, "{isa:?}");
            }
            let rest = 2.0 * isa.lanes() as f64;
            assert_eq!(isa.multiply_adds(100, 0.5, 1.0), rest, "{isa:?}");
        }
    }

    #[test]
    fn the_dot_is_the_sum_of_the_products() {
        let mut bytes = [0i8; DOT_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = (index * 37 % 256) as u8 as i8;
        }
        bytes[5] = -128;
        let sum: i64 = bytes.iter().map(|&byte| i64::from(byte)).sum();
        for way in ByteDot::available() {
            let rounds = if cfg!(miri) { 2 } else { 16 };
            for (rounds, factor) in [(0, 7), (1, 128), (rounds, 77)] {
                let expected = rounds as i64 * i64::from(factor) * sum;
                assert_eq!(way.dot(rounds, factor, &bytes), expected, "{way:?}");
            }
            let ones = way.dot(1, 1, &[1; DOT_BYTES]);
            assert_eq!(ones, DOT_BYTES as i64, "{way:?}");
        }
    }
}
