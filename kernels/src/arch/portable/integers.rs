//! Integer dot products on what every CPU has: arrays, left to the compiler's vectoriser.

use super::Portable;
use crate::arch::integer::{Halves, Int8, REGISTERS};
use crate::arch::panel::{PANEL_ROWS, Rows16};
use crate::quant::scales_and_mins;

/// One row at a time.
impl Int8<1> for Portable {
    type Bytes = [u8; 32];
    type Shorts = [i16; 16];
    type Words = [i32; 8];
    type Floats = [f32; 8];

    const SIGNED_OFFSET: i32 = 0;

    #[inline(always)]
    fn splat(self, x: i32) -> [i32; 8] {
        [x; 8]
    }

    #[inline(always)]
    fn zero_floats(self) -> [f32; 8] {
        [0.0; 8]
    }

    #[inline(always)]
    fn store(self, x: [f32; 8], to: &mut [[f32; 8]; 1]) {
        *to = [x];
    }

    #[inline(always)]
    fn load(self, [x]: [&[u8; 32]; 1]) -> [u8; 32] {
        *x
    }

    #[inline(always)]
    fn nibbles(self, [x]: [&[u8; 16]; 1]) -> [u8; 32] {
        let mut out = [0; 32];
        for i in 0..16 {
            out[i] = x[i] & 15;
            out[i + 16] = x[i] >> 4;
        }
        out
    }

    #[inline(always)]
    fn or_sixteens(self, mut x: [u8; 32], [bits]: [[u8; 4]; 1]) -> [u8; 32] {
        for i in 0..32 {
            x[i] |= (bits[i / 8] >> (i % 8) & 1) << 4;
        }
        x
    }

    #[inline(always)]
    fn or(self, a: [u8; 32], b: [u8; 32]) -> [u8; 32] {
        let mut out = a;
        for i in 0..32 {
            out[i] |= b[i];
        }
        out
    }

    #[inline(always)]
    fn shift_right<const BY: i32>(self, mut x: [u8; 32], mask: u8) -> [u8; 32] {
        for byte in &mut x {
            *byte = *byte >> BY & mask;
        }
        x
    }

    #[inline(always)]
    fn shift_left<const BY: i32>(self, mut x: [u8; 32], mask: u8) -> [u8; 32] {
        for byte in &mut x {
            *byte = *byte << BY & mask;
        }
        x
    }

    #[inline(always)]
    fn dot(self, mut sums: [i32; 8], w: [u8; 32], a: &[i8; 32]) -> [i32; 8] {
        for i in 0..32 {
            sums[i / 4] += i32::from(w[i]) * i32::from(a[i]);
        }
        sums
    }

    #[inline(always)]
    fn dot_signed(self, mut sums: [i32; 8], w: [u8; 32], a: &[i8; 32]) -> [i32; 8] {
        for i in 0..32 {
            sums[i / 4] += i32::from(w[i] as i8) * i32::from(a[i]);
        }
        sums
    }

    #[inline(always)]
    fn dot_scaled(
        self,
        mut sums: [i32; 8],
        w: [u8; 32],
        a: &[i8; 32],
        scales: [i16; 16],
        at: [usize; 2],
    ) -> [i32; 8] {
        let dots = Int8::dot(self, [0; 8], w, a);
        for i in 0..8 {
            sums[i] += dots[i] * i32::from(scales[at[i / 4]]);
        }
        sums
    }

    #[inline(always)]
    fn dot_shorts(self, x: [i16; 16], y: &[i16; 16]) -> [i32; 8] {
        let mut sums = [0; 8];
        for i in 0..16 {
            sums[i / 2] += i32::from(x[i]) * i32::from(y[i]);
        }
        sums
    }

    #[inline(always)]
    fn six_bits(self, [head]: [&[u8; 16]; 1]) -> [i16; 16] {
        let (_, packed) = head.split_last_chunk().expect("12 of 16 bytes");
        let (scales, mins) = scales_and_mins(packed);
        let mut out = [0; 16];
        for s in 0..8 {
            out[s] = scales[s].into();
            out[s + 8] = mins[s].into();
        }
        out
    }

    #[inline(always)]
    fn extend(self, [x]: [&[i8; 16]; 1]) -> [i16; 16] {
        let mut out = [0; 16];
        for i in 0..16 {
            out[i] = x[i].into();
        }
        out
    }

    #[inline(always)]
    fn totals(self, sums: [[i32; 8]; REGISTERS]) -> [i32; 8] {
        let mut out = [0; 8];
        for r in 0..REGISTERS {
            for sum in sums[r] {
                out[r] += sum;
            }
        }
        out
    }

    #[inline(always)]
    fn interleave(self, x: [[u8; 32]; REGISTERS]) -> [[u8; 32]; REGISTERS] {
        let mut out = [[0; 32]; REGISTERS];
        for (j, out) in out.iter_mut().enumerate() {
            for (r, four) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                *four = x[r].as_chunks().0[j];
            }
        }
        out
    }

    #[inline(always)]
    fn store_bytes(self, x: [u8; 32], to: &mut [[u8; 32]; 1]) {
        *to = [x];
    }

    #[inline(always)]
    fn bytes_of(self, x: [i16; 16]) -> [u8; 32] {
        bytemuck::cast(x)
    }

    #[inline(always)]
    fn minus(self, mut x: [i32; 8], y: [i32; 8]) -> [i32; 8] {
        for i in 0..8 {
            x[i] -= y[i];
        }
        x
    }

    #[inline(always)]
    fn times_32(self, x: [i32; 8]) -> [i32; 8] {
        x.map(|x| x * 32)
    }

    #[inline(always)]
    fn halves(self, [x]: &Halves<1>) -> [f32; 8] {
        let mut out = [0.0; 8];
        for i in 0..8 {
            out[i] = x[i].to_f32();
        }
        out
    }

    #[inline(always)]
    fn add_scaled(self, mut sums: [f32; 8], d: [f32; 8], d_a: f32, totals: [i32; 8]) -> [f32; 8] {
        for i in 0..8 {
            sums[i] += d[i] * d_a * totals[i] as f32;
        }
        sums
    }

    #[inline(always)]
    fn prefetch(self, _base: &[u8], _offset: usize, _len: usize) {}
}

impl Rows16 for Portable {
    type Bytes = [u8; 64];
    type Words = [i32; PANEL_ROWS];
    type Floats = [f32; PANEL_ROWS];

    const SIGNED_OFFSET: i32 = 0;

    #[inline(always)]
    fn zero_floats(self) -> Self::Floats {
        [0.0; PANEL_ROWS]
    }

    #[inline(always)]
    fn splat(self, x: i32) -> Self::Words {
        [x; PANEL_ROWS]
    }

    #[inline(always)]
    fn load(self, x: &[u8; 64]) -> Self::Bytes {
        *x
    }

    #[inline(always)]
    fn store(self, x: Self::Floats, to: &mut [f32; PANEL_ROWS]) {
        *to = x;
    }

    #[inline(always)]
    fn dot(self, mut sums: Self::Words, w: Self::Bytes, a: [i8; 4]) -> Self::Words {
        for i in 0..64 {
            sums[i / 4] += i32::from(w[i]) * i32::from(a[i % 4]);
        }
        sums
    }

    #[inline(always)]
    fn dot_signed(self, mut sums: Self::Words, w: Self::Bytes, a: [i8; 4]) -> Self::Words {
        for i in 0..64 {
            sums[i / 4] += i32::from(w[i] as i8) * i32::from(a[i % 4]);
        }
        sums
    }

    #[inline(always)]
    fn dot_pairs(self, mut sums: Self::Words, w: &[i16; 32], a: [i16; 2]) -> Self::Words {
        for i in 0..32 {
            sums[i / 2] += i32::from(w[i]) * i32::from(a[i % 2]);
        }
        sums
    }

    #[inline(always)]
    fn add_product(
        self,
        mut sums: Self::Words,
        x: Self::Words,
        y: &[i32; PANEL_ROWS],
    ) -> Self::Words {
        for i in 0..PANEL_ROWS {
            sums[i] += x[i] * y[i];
        }
        sums
    }

    #[inline(always)]
    fn add_scaled(
        self,
        mut sums: Self::Floats,
        d: &[f32; PANEL_ROWS],
        d_a: f32,
        totals: Self::Words,
    ) -> Self::Floats {
        for i in 0..PANEL_ROWS {
            sums[i] += d[i] * d_a * totals[i] as f32;
        }
        sums
    }
}
