//! 256-bit vectors with fused multiply-add.

use super::compile_loops;
use crate::arch::all::{self, Fused};
use crate::quant::Matrix;

/// Proof that this CPU has AVX2 and FMA.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The token, if the CPU has the instructions.
    pub(in crate::arch) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        has.then_some(Self(()))
    }
}

// Two partial-sum registers for each of 2 x 2 sums leave room for the operands in sixteen.
compile_loops!(Avx2, "avx2,fma", 2 x 2);
