//! The registry: what is known of a brick at compile time.

use std::fmt::{self, Debug, Display, Formatter};
use std::hash::Hash;
use std::str::FromStr;

use crate::claim;

/// A brick's time budget per call.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Budget {
    /// No budget was declared.
    None,
    /// `budget_us = 2000`: the same for every call, in nanoseconds.
    Fixed {
        /// Nanoseconds per call.
        ns: u64,
    },
    /// `budget_us = 3 * x.len()`: computed from the parameters of each call.
    PerCall {
        /// The expression's source text.
        expr: &'static str,
    },
}

/// Where a brick's claim runs. One brick may have one claim per backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[repr(u8)]
pub enum Backend {
    /// The primary claim, made without `backend = …`.
    Primary = 0,
    /// NVIDIA GPUs, through the CUDA driver.
    Cuda = 1,
    /// GPUs through WebGPU.
    Wgpu = 2,
    /// x86-64 with AVX2 and FMA.
    Avx2 = 3,
    /// x86-64 with AVX-512.
    Avx512 = 4,
    /// AArch64 Advanced SIMD.
    Neon = 5,
    /// WebAssembly with simd128.
    Wasm = 6,
}

impl Backend {
    /// Every backend, by its number.
    pub const ALL: [Backend; 7] = [
        Backend::Primary,
        Backend::Cuda,
        Backend::Wgpu,
        Backend::Avx2,
        Backend::Avx512,
        Backend::Neon,
        Backend::Wasm,
    ];
}

/// A brick's contracts, as text: `requires x.len() > 0`, `out: no_nan`, ….
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// With U+001E between them: a constant can hold one string of any length, no such array.
    text: &'static str,
}

impl Checks {
    pub(crate) const fn new(text: &'static str) -> Checks {
        Checks { text }
    }

    /// Each contract, in the order in which it is checked.
    pub fn iter(self) -> impl Iterator<Item = &'static str> {
        self.text.split('\u{1e}').filter(|check| !check.is_empty())
    }
}

impl Debug for Checks {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Checks {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

/// What is known of a brick at compile time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BrickInfo {
    /// The id, as written in `#[brick(id = …)]`.
    pub name: &'static str,
    /// The crate that declares it.
    pub crate_name: &'static str,
    /// FNV-1a-64 of `crate::Name`: the same in every build and process.
    pub wire_id: u64,
    /// `category = …`, or `"Other"`.
    pub category: &'static str,
    /// The budget per call.
    pub budget: Budget,
    /// The contracts, as text.
    pub checks: Checks,
    /// The module of the annotated function.
    pub module: &'static str,
    /// The annotated function's name.
    pub function: &'static str,
    /// Source file.
    pub file: &'static str,
    /// Line of the function.
    pub line: u32,
    /// First paragraph of the doc comment.
    pub doc: &'static str,
    /// The claim's backend.
    pub backend: Backend,
}

impl BrickInfo {
    /// `module` is `module_path!()` of the claim.
    #[must_use]
    pub const fn new(
        name: &'static str,
        module: &'static str,
        function: &'static str,
        file: &'static str,
        line: u32,
    ) -> Self {
        let crate_name = crate_of(module);
        BrickInfo {
            name,
            crate_name,
            wire_id: wire_id(crate_name, name),
            category: "Other",
            budget: Budget::None,
            checks: Checks::new(""),
            module,
            function,
            file,
            line,
            doc: "",
            backend: Backend::Primary,
        }
    }
    /// With a budget that is the same for every call (`budget_us = 2000`).
    #[must_use]
    pub const fn budget_ns(mut self, ns: u64) -> Self {
        self.budget = Budget::Fixed { ns };
        self
    }
    /// With a budget computed per call (`budget_us = 3 * x.len()`).
    #[must_use]
    pub const fn budget_expr(mut self, expr: &'static str) -> Self {
        self.budget = Budget::PerCall { expr };
        self
    }
}

/// The enum that `bricks!()` makes: one variant per annotated kernel of a crate.
pub trait BrickId: Copy + Eq + Hash + Debug + Display + FromStr + Send + Sync + 'static {
    /// Every id, in the order of the variants.
    const ALL: &'static [Self];
    /// The claims behind them, in the same order: see [`table`](Self::table).
    #[doc(hidden)]
    const CLAIMS: &'static [&'static str];
    /// The variant's index in `ALL` and in the table.
    fn index(self) -> usize;
    /// What is known of each brick, in the order of `ALL`.
    #[must_use]
    fn table() -> &'static [&'static BrickInfo] {
        claim::table::<Self>()
    }
    /// What is known of this brick.
    fn info(self) -> &'static BrickInfo {
        Self::table()[self.index()]
    }
}

/// The crate a `module_path!()` lies in.
#[must_use]
pub const fn crate_of(module: &'static str) -> &'static str {
    let bytes = module.as_bytes();
    let mut i = 0;
    while i < bytes.len() && bytes[i] != b':' {
        i += 1;
    }
    module.split_at(i).0
}

/// FNV-1a-64 of `crate::Name` (<http://www.isthe.com/chongo/tech/comp/fnv/>).
#[must_use]
pub const fn wire_id(crate_name: &str, name: &str) -> u64 {
    const fn eat(mut hash: u64, text: &str) -> u64 {
        let bytes = text.as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
            i += 1;
        }
        hash
    }
    eat(eat(eat(0xcbf2_9ce4_8422_2325, crate_name), "::"), name)
}
