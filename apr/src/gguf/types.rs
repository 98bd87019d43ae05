//! The tensor types of ggml, by id.

use std::fmt;

/// A ggml tensor type: its id in the file, its name, and the layout of its blocks.
///
/// All types of the format are listed, so that a file can be measured and described even
/// where no kernel of ours can compute with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GgmlType(&'static Layout);

#[derive(Debug, PartialEq, Eq)]
struct Layout {
    id: u32,
    name: &'static str,
    block_elems: u64,
    block_bytes: u64,
}

const fn layout(id: u32, name: &'static str, block_elems: u64, block_bytes: u64) -> Layout {
    Layout {
        id,
        name,
        block_elems,
        block_bytes,
    }
}

/// Ids from `enum ggml_type` in ggml.h, block sizes from ggml-common.h. The ids left out
/// (4, 5, 31–33, 36–38) named formats that ggml has removed.
static LAYOUTS: [Layout; 35] = [
    layout(0, "F32", 1, 4),
    layout(1, "F16", 1, 2),
    layout(2, "Q4_0", 32, 18),
    layout(3, "Q4_1", 32, 20),
    layout(6, "Q5_0", 32, 22),
    layout(7, "Q5_1", 32, 24),
    layout(8, "Q8_0", 32, 34),
    layout(9, "Q8_1", 32, 36),
    layout(10, "Q2_K", 256, 84),
    layout(11, "Q3_K", 256, 110),
    layout(12, "Q4_K", 256, 144),
    layout(13, "Q5_K", 256, 176),
    layout(14, "Q6_K", 256, 210),
    layout(15, "Q8_K", 256, 292),
    layout(16, "IQ2_XXS", 256, 66),
    layout(17, "IQ2_XS", 256, 74),
    layout(18, "IQ3_XXS", 256, 98),
    layout(19, "IQ1_S", 256, 50),
    layout(20, "IQ4_NL", 32, 18),
    layout(21, "IQ3_S", 256, 110),
    layout(22, "IQ2_S", 256, 82),
    layout(23, "IQ4_XS", 256, 136),
    layout(24, "I8", 1, 1),
    layout(25, "I16", 1, 2),
    layout(26, "I32", 1, 4),
    layout(27, "I64", 1, 8),
    layout(28, "F64", 1, 8),
    layout(29, "IQ1_M", 256, 56),
    layout(30, "BF16", 1, 2),
    layout(34, "TQ1_0", 256, 54),
    layout(35, "TQ2_0", 256, 66),
    layout(39, "MXFP4", 32, 17),
    layout(40, "NVFP4", 64, 36),
    layout(41, "Q1_0", 128, 18),
    layout(42, "Q2_0", 64, 18),
];

impl GgmlType {
    /// The type with this id in `enum ggml_type`, if there is one.
    pub fn from_id(id: u32) -> Option<Self> {
        LAYOUTS.iter().find(|l| l.id == id).map(Self)
    }

    /// The id in `enum ggml_type`.
    pub fn id(self) -> u32 {
        self.0.id
    }

    /// ggml's name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Elements in one block (1 for the plain number types).
    pub fn block_elems(self) -> u64 {
        self.0.block_elems
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> u64 {
        self.0.block_bytes
    }

    /// Bytes of `elems` elements; `None` where that overflows or is no whole number of blocks.
    pub fn size_of(self, elems: u64) -> Option<u64> {
        if !elems.is_multiple_of(self.0.block_elems) {
            return None;
        }
        (elems / self.0.block_elems).checked_mul(self.0.block_bytes)
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}
