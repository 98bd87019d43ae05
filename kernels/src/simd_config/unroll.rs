//! How many sums the loops of each instruction set keep in registers.

use std::fmt;

/// The register tiles of one instruction set: how many rows of weights, by how many tokens, a loop
/// over their elements multiplies at a time. Their sums stay in registers, so a tile is as large as the
/// registers allow and no larger.
///
/// | set | registers | `f32` | bytes | bytes, with sub-blocks |
/// |---|---|---|---|---|
/// | portable | 16 of 128 bits | 1 x 1 | 16 x 1 | 16 x 1 |
/// | AVX2, AVX-VNNI | 16 of 256 bits | 2 x 2 | 16 x 2 | 16 x 1 |
/// | AVX-512 | 32 of 512 bits | 4 x 4 | AVX2's | AVX2's |
/// | AVX-512-VNNI | 32 of 512 bits | 4 x 4 | 16 x 12 | 16 x 8 |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unroll {
    /// Rows of a tile of `f32` products; also the rows of outputs of a weighted sum of rows.
    pub rows: usize,
    /// Tokens of a tile of `f32` products.
    pub tokens: usize,
    /// Tokens of a tile of 8-bit products: by sixteen rows, one lane each.
    pub int8_tokens: usize,
    /// The same for formats whose blocks have sub-blocks with a scale each.
    pub int8_tokens_sub_blocks: usize,
}

impl Unroll {
    /// Sixteen partial sums are four registers of SSE2 or NEON: tiles of one keep them there.
    pub(crate) const PORTABLE: Self = Self {
        rows: 1,
        tokens: 1,
        int8_tokens: 1,
        int8_tokens_sub_blocks: 1,
    };

    pub(crate) const AVX2: Self = Self {
        rows: 2,
        tokens: 2,
        int8_tokens: 2,
        int8_tokens_sub_blocks: 1,
    };

    pub(crate) const AVX_512: Self = Self {
        rows: 4,
        tokens: 4,
        ..Self::AVX2
    };

    pub(crate) const AVX_512_VNNI: Self = Self {
        int8_tokens: 12,
        int8_tokens_sub_blocks: 8,
        ..Self::AVX_512
    };
}

/// `f32 4 x 4, bytes 16 x 12 (16 x 8 with sub-blocks)`
impl fmt::Display for Unroll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "f32 {} x {}, bytes 16 x {} (16 x {} with sub-blocks)",
            self.rows, self.tokens, self.int8_tokens, self.int8_tokens_sub_blocks
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Unroll;

    /// Registers of `lanes` 32-bit lanes for the sums of a tile and its operands, counted by hand from
    /// the loops: sixteen lanes are one register or several.
    fn registers(unroll: Unroll, lanes_f32: usize, lanes_int8: usize) -> [usize; 3] {
        let parts = 16 / lanes_f32;
        // All sums; one step's operands are the rows and one token.
        let f32s = parts * (unroll.rows * unroll.tokens + unroll.rows + 1);
        let parts = 16 / lanes_int8;
        // For each token the totals in f32 and a block's sums in i32, and the weights.
        let int8 = parts * (2 * unroll.int8_tokens + 1);
        // A sub-block's sums besides.
        let sub_blocks = parts * (3 * unroll.int8_tokens_sub_blocks + 1);
        [f32s, int8, sub_blocks]
    }

    #[test]
    fn tiles_fit_the_registers() {
        for (unroll, lanes_f32, lanes_int8, limits) in [
            (Unroll::AVX2, 8, 8, [16, 16, 16]),
            (Unroll::AVX_512, 16, 8, [32, 16, 16]),
            (Unroll::AVX_512_VNNI, 16, 16, [32, 32, 32]),
        ] {
            let needed = registers(unroll, lanes_f32, lanes_int8);
            for (needed, limit) in needed.into_iter().zip(limits) {
                assert!(needed <= limit, "{unroll:?}: {needed} of {limit} registers");
            }
        }
    }
}
