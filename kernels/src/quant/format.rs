//! The formats a weight matrix can have.

use std::fmt;

/// How the elements of a weight matrix are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// IEEE single precision, little-endian.
    F32,
    /// IEEE half precision, little-endian.
    F16,
    /// bfloat16: the upper half of an `f32`, little-endian.
    Bf16,
    /// 4 bits and one scale for 32 elements.
    Q4_0,
    /// 4 bits, one scale and one minimum for 32 elements.
    Q4_1,
    /// 5 bits and one scale for 32 elements.
    Q5_0,
    /// 8 bits and one scale for 32 elements.
    Q8_0,
    /// 4 bits, 256 elements, a 6-bit scale and minimum for each 32.
    Q4K,
    /// 5 bits, 256 elements, a 6-bit scale and minimum for each 32.
    Q5K,
    /// 6 bits, 256 elements, an 8-bit scale for each 16.
    Q6K,
}

impl Format {
    /// Every format, for tests and tables.
    pub const ALL: [Self; 10] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// Elements in one block; 1 for the formats without blocks.
    #[inline]
    pub const fn block_elems(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of one block; of one element for the formats without blocks.
    #[inline]
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => size_of::<super::BlockQ4_0>(),
            Self::Q4_1 => size_of::<super::BlockQ4_1>(),
            Self::Q5_0 => size_of::<super::BlockQ5_0>(),
            Self::Q8_0 => size_of::<super::BlockQ8_0>(),
            Self::Q4K => size_of::<super::BlockQ4K>(),
            Self::Q5K => size_of::<super::BlockQ5K>(),
            Self::Q6K => size_of::<super::BlockQ6K>(),
        }
    }

    /// ggml's name: `Q4_K`, `F16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Bytes of `elems` consecutive elements: `None` if they end inside a block, or if the
    /// product overflows.
    #[inline]
    pub const fn bytes_for(self, elems: usize) -> Option<usize> {
        if !elems.is_multiple_of(self.block_elems()) {
            return None;
        }
        (elems / self.block_elems()).checked_mul(self.block_bytes())
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
