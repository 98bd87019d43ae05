//! How the kernels use the registers of this CPU, and what keeps them from more: register tiles, and
//! AMX.
//!
//! [`Unroll`] is the one place that says how many sums each instruction set's loops keep in
//! registers; the loops are compiled from it.
//!
//! AMX (Intel's Advanced Matrix Extensions) multiplies tiles of bytes, and a program may use them
//! if three parties agree: the CPU ([`Amx::detect`] reads CPUID), the operating system, which has to
//! save the tiles of a thread (XCR0), and, on Linux, the kernel once more, which wants to be asked
//! ([`request_tiles`]), because a thread with tiles takes 8 KiB more on every signal stack. What the
//! tiles hold is told to the CPU in a record of 64 bytes ([`TileConfig::record`]).
//!
//! There is no kernel on AMX: no machine that the project is tested on has it, and a dot product that
//! never ran is not shipped. So [`Amx::obstacle`] always names a reason, and where everything else
//! is there it is that one.
//!
//! The layouts are of the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2A:
//! CPUID, leaves 7, 0DH, 1DH and 1EH; LDTILECFG; TDPBUSD.

mod amx;
mod permission;
mod tile;
mod unroll;

pub use self::amx::{Amx, Obstacle, Palette, TileState};
pub use self::permission::{PermissionError, request_tiles};
pub use self::tile::{TileConfig, TileError, TileProduct};
pub use self::unroll::Unroll;
