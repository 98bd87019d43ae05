//! What CPUID and XGETBV say of AMX.

use super::permission::PermissionError;

/// CPUID's answer to one leaf and sub-leaf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Leaf {
    eax: u32,
    ebx: u32,
    ecx: u32,
    edx: u32,
}

/// XSAVE's numbers of the two parts of a thread's state that AMX adds.
const TILE_CONFIG: u32 = 17;
pub(super) const TILE_DATA: u32 = 18;

/// The palette with eight tiles of 16 rows of 64 bytes, the only one so far.
const PALETTE: u32 = 1;

/// What this CPU has of AMX, and whether the operating system keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amx {
    /// Tiles: leaf 7, EDX bit 24.
    pub tile: bool,
    /// Products of tiles of bytes: leaf 7, EDX bit 25.
    pub int8: bool,
    /// Products of tiles of bfloat16: leaf 7, EDX bit 22.
    pub bf16: bool,
    /// How large tiles can be; `None` where CPUID describes no palette 1.
    pub palette: Option<Palette>,
    /// What the tiles add to a thread's state; `None` where XSAVE does not know of them.
    pub state: Option<TileState>,
    /// The parts of a thread's state that the operating system saves; `None` where it saves none by
    /// XSAVE.
    pub xcr0: Option<u64>,
}

/// The limits of the tiles: leaf 1DH sub-leaf 1, and leaf 1EH for those of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Palette {
    /// Tile registers.
    pub tiles: u16,
    /// Bytes of one tile.
    pub tile_bytes: u16,
    /// Bytes of one row of a tile, at most.
    pub row_bytes: u16,
    /// Rows of a tile, at most.
    pub rows: u16,
    /// Rows of a product's right factor, at most: four elements of the sum each, if they are bytes.
    pub product_rows: u8,
    /// Bytes of a row of a product's right factor, at most.
    pub product_row_bytes: u16,
}

/// Sizes of a thread's state in an XSAVE area: leaf 0DH, sub-leaves 17 and 18.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileState {
    /// Bytes of the record that says what the tiles hold.
    pub config_bytes: u32,
    /// Bytes of the tiles.
    pub data_bytes: u32,
}

/// What keeps this process from AMX.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Another architecture.
    #[error("this is no x86-64 processor")]
    Architecture,
    /// The CPU lacks a part.
    #[error("CPUID leaf 7 EDX bit {bit} ({name}) is 0")]
    Feature {
        /// `AMX-TILE` or `AMX-INT8`.
        name: &'static str,
        /// Its bit.
        bit: u32,
    },
    /// The CPU does not tell how large its tiles are.
    #[error("CPUID leaf 1DH describes no palette 1")]
    Palette,
    /// The operating system does not save tiles.
    #[error("XCR0 is {0:#x}: the operating system does not save tiles (bits 17 and 18)")]
    State(u64),
    /// The operating system does not use XSAVE.
    #[error("CPUID leaf 1 ECX bit 27 is 0: the operating system does not use XSAVE")]
    Xsave,
    /// The operating system saves tiles, but not for this process.
    #[error(transparent)]
    Permission(#[from] PermissionError),
    /// Everything is there but the code.
    #[error("no kernel uses it: an AMX dot product could not be tested")]
    NoKernel,
}

impl Amx {
    /// Asks the CPU.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self::decode(x86_64::leaf, x86_64::xcr0);
        #[cfg(not(target_arch = "x86_64"))]
        Self::default()
    }

    /// `leaf` is CPUID, and `xcr0` is asked only where CPUID says that it can be.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    fn decode(leaf: impl Fn(u32, u32) -> Leaf, xcr0: impl FnOnce() -> u64) -> Self {
        // A leaf past the last one is answered with the last one.
        let last = leaf(0, 0).eax;
        let leaf = |number, sub| {
            if number <= last {
                leaf(number, sub)
            } else {
                Leaf::default()
            }
        };
        let bit = |register: u32, bit: u32| register >> bit & 1 == 1;
        let extended = leaf(7, 0);
        let has_xsave = bit(leaf(1, 0).ecx, 27);
        let bytes_of = |component| leaf(0xD, component).eax;
        Self {
            tile: bit(extended.edx, 24),
            int8: bit(extended.edx, 25),
            bf16: bit(extended.edx, 22),
            palette: (leaf(0x1D, 0).eax >= PALETTE)
                .then(|| Palette::decode(leaf(0x1D, PALETTE), leaf(0x1E, 0))),
            state: (has_xsave && bytes_of(TILE_DATA) > 0).then(|| TileState {
                config_bytes: bytes_of(TILE_CONFIG),
                data_bytes: bytes_of(TILE_DATA),
            }),
            xcr0: has_xsave.then(xcr0),
        }
    }

    /// The first thing that keeps this process from AMX; `permission` is what [`request_tiles`]
    /// answered.
    ///
    /// [`request_tiles`]: super::request_tiles
    #[must_use]
    pub fn obstacle(&self, permission: Result<(), PermissionError>) -> Obstacle {
        if cfg!(not(target_arch = "x86_64")) {
            return Obstacle::Architecture;
        }
        for (has, name, bit) in [(self.tile, "AMX-TILE", 24), (self.int8, "AMX-INT8", 25)] {
            if !has {
                return Obstacle::Feature { name, bit };
            }
        }
        let saved = 1 << TILE_CONFIG | 1 << TILE_DATA;
        match (self.palette, self.xcr0) {
            (None, _) => Obstacle::Palette,
            (_, None) => Obstacle::Xsave,
            (_, Some(xcr0)) if xcr0 & saved != saved => Obstacle::State(xcr0),
            _ => permission.map_or_else(Obstacle::Permission, |()| Obstacle::NoKernel),
        }
    }
}

impl Palette {
    /// Palette 1, as every CPU with AMX has it.
    #[cfg(test)]
    pub(super) const FIRST: Palette = Palette {
        tiles: 8,
        tile_bytes: 1024,
        row_bytes: 64,
        rows: 16,
        product_rows: 16,
        product_row_bytes: 64,
    };

    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    fn decode(palette: Leaf, product: Leaf) -> Self {
        let halves = |register: u32| (register as u16, (register >> 16) as u16);
        let (_, tile_bytes) = halves(palette.eax);
        let (row_bytes, tiles) = halves(palette.ebx);
        Self {
            tiles,
            tile_bytes,
            row_bytes,
            rows: palette.ecx as u16,
            product_rows: product.ebx as u8,
            product_row_bytes: (product.ebx >> 8) as u16,
        }
    }
}

/// By std's intrinsics: the raw-cpuid crate knows the feature bits and not leaves 1DH and 1EH.
#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::Leaf;
    use std::arch::x86_64::{__cpuid_count, _xgetbv};

    pub(super) fn leaf(number: u32, sub: u32) -> Leaf {
        let answer = __cpuid_count(number, sub);
        Leaf {
            eax: answer.eax,
            ebx: answer.ebx,
            ecx: answer.ecx,
            edx: answer.edx,
        }
    }

    /// Only where leaf 1 has OSXSAVE, which [`Amx::decode`](super::Amx::decode) looks at first.
    pub(super) fn xcr0() -> u64 {
        #[target_feature(enable = "xsave")]
        fn compiled() -> u64 {
            // SAFETY: register 0 exists wherever the instruction does.
            unsafe { _xgetbv(0) }
        }
        // SAFETY: OSXSAVE, which was seen, says that the CPU has XSAVE and the system switched it on.
        unsafe { compiled() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Sapphire Rapids server under Linux, as far as the leaves matter: what `cpuid -r` prints there.
    fn sapphire_rapids(number: u32, sub: u32) -> Leaf {
        let [eax, ebx, ecx, edx] = match (number, sub) {
            (0, _) => [0x20, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
            (1, _) => [0x000c_06f2, 0, 0x7ffe_fbff, 0xbfeb_fbff],
            (7, 0) => [2, 0xf3bf_bfbf, 0xfb41_7ffe, 0xffdd_4432],
            (0xD, 17) => [64, 2752, 2, 0],
            (0xD, 18) => [8192, 2816, 6, 0],
            (0x1D, 0) => [1, 0, 0, 0],
            (0x1D, 1) => [0x0400_2000, 0x0008_0040, 16, 0],
            (0x1E, 0) => [0, 0x0000_4010, 0, 0],
            _ => [0; 4],
        };
        Leaf { eax, ebx, ecx, edx }
    }

    fn edx_without(bit: u32) -> impl Fn(u32, u32) -> Leaf {
        move |number, sub| {
            let mut leaf = sapphire_rapids(number, sub);
            if number == 7 {
                leaf.edx &= !(1 << bit);
            }
            leaf
        }
    }

    #[test]
    fn the_leaves_of_a_cpu_with_amx_are_read_as_the_manual_lays_them_out() {
        let amx = Amx::decode(sapphire_rapids, || 0x602e7);
        let expected = Amx {
            tile: true,
            int8: true,
            bf16: true,
            palette: Some(Palette::FIRST),
            state: Some(TileState {
                config_bytes: 64,
                data_bytes: 8192,
            }),
            xcr0: Some(0x602e7),
        };
        assert_eq!(amx, expected);
    }

    #[test]
    fn leaves_past_the_last_are_not_believed() {
        let amx = Amx::decode(
            |number, sub| match number {
                0 => Leaf {
                    eax: 0x16,
                    ..Leaf::default()
                },
                // What such a CPU answers to any leaf it lacks.
                0x17.. => Leaf {
                    eax: 3,
                    ebx: 3,
                    ecx: 3,
                    edx: 3,
                },
                _ => sapphire_rapids(number, sub),
            },
            || 7,
        );
        assert_eq!(amx.palette, None);
    }

    #[test]
    fn xcr0_is_not_asked_where_the_system_does_not_use_xsave() {
        let without = |number, sub| {
            let mut leaf = sapphire_rapids(number, sub);
            if number == 1 {
                leaf.ecx &= !(1 << 27);
            }
            leaf
        };
        let amx = Amx::decode(without, || panic!("XGETBV would trap"));
        assert_eq!((amx.xcr0, amx.state), (None, None));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_first_obstacle_is_named() {
        let all = Amx::decode(sapphire_rapids, || 0x602e7);
        let told = |amx: Amx, permission| amx.obstacle(permission).to_string();
        let bit = |bit, permission| told(Amx::decode(edx_without(bit), || 0x602e7), permission);
        assert_eq!(bit(24, Ok(())), "CPUID leaf 7 EDX bit 24 (AMX-TILE) is 0");
        assert_eq!(bit(25, Ok(())), "CPUID leaf 7 EDX bit 25 (AMX-INT8) is 0");
        let changed = |change: fn(&mut Amx)| {
            let mut amx = all;
            change(&mut amx);
            told(amx, Ok(()))
        };
        assert_eq!(
            changed(|amx| amx.palette = None),
            "CPUID leaf 1DH describes no palette 1"
        );
        assert_eq!(
            changed(|amx| amx.xcr0 = None),
            "CPUID leaf 1 ECX bit 27 is 0: the operating system does not use XSAVE"
        );
        // One of the two bits is not enough.
        for xcr0 in [0x2e7, 0x202e7, 0x402e7] {
            let amx = Amx {
                xcr0: Some(xcr0),
                ..all
            };
            assert_eq!(amx.obstacle(Ok(())), Obstacle::State(xcr0));
        }
        assert_eq!(
            told(all, Err(PermissionError::SignalStack)),
            PermissionError::SignalStack.to_string()
        );
        assert_eq!(
            changed(|_| ()),
            "no kernel uses it: an AMX dot product could not be tested"
        );
    }

    /// Linux reads CPUID too, in code that is not ours.
    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[cfg_attr(miri, ignore = "CPUID is assembly")]
    fn this_cpu_has_what_the_system_says() {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let flags = text.lines().find(|line| line.starts_with("flags")).unwrap();
        let has = |flag| flags.split_whitespace().any(|word| word == flag);
        let amx = Amx::detect();
        // The system takes its flag away where it does not save tiles, the CPU keeps its bit.
        for (ours, flag) in [
            (amx.tile, "amx_tile"),
            (amx.int8, "amx_int8"),
            (amx.bf16, "amx_bf16"),
        ] {
            assert!(ours || !has(flag), "{flag}");
        }
        let avx = amx.xcr0.is_some_and(|xcr0| xcr0 & 0b110 == 0b110);
        assert_eq!(avx, has("avx"));
        let avx512 = amx.xcr0.is_some_and(|xcr0| xcr0 & 0xe6 == 0xe6);
        assert_eq!(avx512, has("avx512f"));
    }
}
