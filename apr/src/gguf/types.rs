//! The tensor types of ggml, by id.

use brick_kernels::quant::Format;
use std::fmt;

/// A ggml tensor type: its id in the file, its name, and the layout of its blocks.
///
/// All types of the format are listed, so that a file can be measured and described even
/// where no kernel can compute with it ([`format`](Self::format) is `None`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GgmlType(&'static Entry);

#[derive(PartialEq, Eq)]
struct Entry {
    id: u32,
    layout: Layout,
}

/// Where the size of a block is known from.
#[derive(PartialEq, Eq)]
enum Layout {
    /// A format that the kernels compute with.
    Kernel(Format),
    /// A format that is only described.
    Foreign {
        name: &'static str,
        block_elems: u64,
        block_bytes: u64,
    },
}

const fn kernel(id: u32, format: Format) -> Entry {
    Entry {
        id,
        layout: Layout::Kernel(format),
    }
}

const fn foreign(id: u32, name: &'static str, block_elems: u64, block_bytes: u64) -> Entry {
    Entry {
        id,
        layout: Layout::Foreign {
            name,
            block_elems,
            block_bytes,
        },
    }
}

/// Ids from `enum ggml_type` in ggml.h, block sizes from ggml-common.h. The ids left out
/// (4, 5, 31–33, 36–38) named formats that ggml has removed.
static TYPES: [Entry; 35] = [
    kernel(0, Format::F32),
    kernel(1, Format::F16),
    kernel(2, Format::Q4_0),
    kernel(3, Format::Q4_1),
    kernel(6, Format::Q5_0),
    foreign(7, "Q5_1", 32, 24),
    kernel(8, Format::Q8_0),
    foreign(9, "Q8_1", 32, 36),
    foreign(10, "Q2_K", 256, 84),
    foreign(11, "Q3_K", 256, 110),
    kernel(12, Format::Q4K),
    kernel(13, Format::Q5K),
    kernel(14, Format::Q6K),
    foreign(15, "Q8_K", 256, 292),
    foreign(16, "IQ2_XXS", 256, 66),
    foreign(17, "IQ2_XS", 256, 74),
    foreign(18, "IQ3_XXS", 256, 98),
    foreign(19, "IQ1_S", 256, 50),
    foreign(20, "IQ4_NL", 32, 18),
    foreign(21, "IQ3_S", 256, 110),
    foreign(22, "IQ2_S", 256, 82),
    foreign(23, "IQ4_XS", 256, 136),
    foreign(24, "I8", 1, 1),
    foreign(25, "I16", 1, 2),
    foreign(26, "I32", 1, 4),
    foreign(27, "I64", 1, 8),
    foreign(28, "F64", 1, 8),
    foreign(29, "IQ1_M", 256, 56),
    kernel(30, Format::Bf16),
    foreign(34, "TQ1_0", 256, 54),
    foreign(35, "TQ2_0", 256, 66),
    foreign(39, "MXFP4", 32, 17),
    foreign(40, "NVFP4", 64, 36),
    foreign(41, "Q1_0", 128, 18),
    foreign(42, "Q2_0", 64, 18),
];

impl GgmlType {
    /// The type with this id in `enum ggml_type`, if there is one.
    pub fn from_id(id: u32) -> Option<Self> {
        TYPES.iter().find(|t| t.id == id).map(Self)
    }

    /// The id in `enum ggml_type`.
    pub fn id(self) -> u32 {
        self.0.id
    }

    /// The kernels' name for it, if they can compute with it.
    pub fn format(self) -> Option<Format> {
        match self.0.layout {
            Layout::Kernel(format) => Some(format),
            Layout::Foreign { .. } => None,
        }
    }

    /// ggml's name, such as `Q4_K`.
    pub fn name(self) -> &'static str {
        match self.0.layout {
            Layout::Kernel(format) => format.name(),
            Layout::Foreign { name, .. } => name,
        }
    }

    /// Elements in one block (1 for the plain number types).
    pub fn block_elems(self) -> u64 {
        match self.0.layout {
            Layout::Kernel(format) => format.block_elems() as u64,
            Layout::Foreign { block_elems, .. } => block_elems,
        }
    }

    /// Bytes of one block.
    pub fn block_bytes(self) -> u64 {
        match self.0.layout {
            Layout::Kernel(format) => format.block_bytes() as u64,
            Layout::Foreign { block_bytes, .. } => block_bytes,
        }
    }

    /// Bytes of `elems` elements; `None` where that overflows or is no whole number of blocks.
    pub fn size_of(self, elems: u64) -> Option<u64> {
        if !elems.is_multiple_of(self.block_elems()) {
            return None;
        }
        (elems / self.block_elems()).checked_mul(self.block_bytes())
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
