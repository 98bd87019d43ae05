//! 512-bit vectors with fused multiply-add.

use super::compile_loops;
use crate::arch::all::{self, Fused};
use crate::quant::Matrix;

/// Proof that this CPU has AVX-512 (F, BW, DQ, VL), AVX2 and FMA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// The token, if the CPU has the instructions.
    pub(in crate::arch) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma");
        has.then_some(Self(()))
    }
}

// One register for each of 4 x 4 sums, five for the operands, of thirty-two.
compile_loops!(Avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", 4 x 4);
