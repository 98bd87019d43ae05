//! What the tile registers hold: the 64 bytes that LDTILECFG loads.

use super::Palette;

/// Tile registers that the record has room for.
const TILES: usize = 8;

/// Bytes of an `i32`, and bytes that one step of a product multiplies for one sum.
const WORD: u16 = 4;

/// A product of two tiles of bytes into sums of 32 bits, by one TDPBUSD:
/// `sums[m, n] += Σ_k a[m, k] * b[k, n]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileProduct {
    /// Rows of the sums and of the left factor.
    pub m: u16,
    /// Columns of the sums and of the right factor.
    pub n: u16,
    /// Products of each sum: a multiple of four.
    pub k: u16,
}

/// Why a record was not made: the CPU would fault on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    /// A dimension is zero: LDTILECFG wants rows and bytes, or neither.
    #[error("a tile product of no {0}")]
    Empty(&'static str),
    /// `k` is no multiple of four: TDPBUSD takes four products at a time.
    #[error("a tile product of k = {0}, not a multiple of 4")]
    Fours(u16),
    /// More than the CPU has.
    #[error("a tile product wants {wanted} {what}, the CPU has {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How many it takes.
        wanted: u32,
        /// How many there are.
        limit: u32,
    },
}

/// One tile register; one of no rows is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Tile {
    rows: u8,
    row_bytes: u16,
}

/// What each of the eight tile registers holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TileConfig {
    tiles: [Tile; TILES],
}

impl TileProduct {
    /// The largest that one instruction of a CPU with this palette multiplies.
    #[must_use]
    pub fn largest(palette: &Palette) -> Self {
        let bytes = palette.row_bytes.min(palette.product_row_bytes);
        let fours = (palette.row_bytes / WORD).min(palette.product_rows.into());
        Self {
            m: palette.rows,
            n: bytes / WORD,
            k: WORD * fours.min(palette.rows),
        }
    }
}

impl TileConfig {
    /// Tile 0 holds the sums, `[m, n]` of 32 bits; tile 1 the left factor, `[m, k]` bytes; tile 2 the
    /// right one, `[k / 4, n]` of four bytes: row `i` has, for each column, elements `4 i ..= 4 i + 3`.
    ///
    /// # Errors
    /// If a dimension is zero, `k` is not a multiple of four, or a tile is larger than the palette's or
    /// than what a product takes.
    pub fn for_product(palette: &Palette, product: TileProduct) -> Result<Self, TileError> {
        let TileProduct { m, n, k } = product;
        for (name, size) in [("rows", m), ("columns", n), ("products", k)] {
            if size == 0 {
                return Err(TileError::Empty(name));
            }
        }
        if !k.is_multiple_of(WORD) {
            return Err(TileError::Fours(k));
        }
        at_most("tiles", 3, palette.tiles)?;
        let word = u32::from(WORD);
        // TDPBUSD has limits of its own for the right factor, whose rows are as long as the sums'.
        at_most(
            "rows of the right factor",
            (k / WORD).into(),
            palette.product_rows.into(),
        )?;
        at_most(
            "bytes in a row of sums",
            u32::from(n) * word,
            palette.product_row_bytes,
        )?;
        let mut tiles = [Tile::default(); TILES];
        let wanted = [
            (m, u32::from(n) * word),
            (m, k.into()),
            (k / WORD, u32::from(n) * word),
        ];
        for (tile, (rows, row_bytes)) in tiles.iter_mut().zip(wanted) {
            *tile = Tile::new(palette, rows, row_bytes)?;
        }
        Ok(Self { tiles })
    }

    /// The record that LDTILECFG loads: byte 0 is the palette, 1; byte 1 the row to start an
    /// interrupted load or store with, 0; bytes 16 to 31 are each tile's bytes in a row, 16 bits,
    /// little-endian; bytes 48 to 55 each tile's rows; the others are reserved, 0.
    #[must_use]
    pub fn record(&self) -> [u8; 64] {
        let mut record = [0; 64];
        record[0] = 1;
        for (i, tile) in self.tiles.iter().enumerate() {
            record[16 + 2 * i..][..2].copy_from_slice(&tile.row_bytes.to_le_bytes());
            record[48 + i] = tile.rows;
        }
        record
    }
}

impl Tile {
    fn new(palette: &Palette, rows: u16, row_bytes: u32) -> Result<Self, TileError> {
        let rows = at_most(
            "rows of a tile",
            rows.into(),
            palette.rows.min(u8::MAX.into()),
        )?;
        let row_bytes = at_most("bytes in a row of a tile", row_bytes, palette.row_bytes)?;
        Ok(Self {
            rows: rows as u8,
            row_bytes,
        })
    }
}

/// `wanted`, which is at most `limit`.
fn at_most(what: &'static str, wanted: u32, limit: u16) -> Result<u16, TileError> {
    u16::try_from(wanted)
        .ok()
        .filter(|&wanted| wanted <= limit)
        .ok_or(TileError::Limit {
            what,
            wanted,
            limit: limit.into(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PALETTE: Palette = Palette::FIRST;

    fn product(m: u16, n: u16, k: u16) -> Result<TileConfig, TileError> {
        TileConfig::for_product(&PALETTE, TileProduct { m, n, k })
    }

    /// Written by hand from the table at LDTILECFG.
    #[test]
    fn records_are_those_of_the_manual_byte_by_byte() {
        #[rustfmt::skip]
        let largest = [
            1, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // palette, start_row, reserved
            64, 0,  64, 0,  64, 0,  0, 0,  0, 0,  0, 0,  0, 0,  0, 0, // colsb of tiles 0 to 7
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // reserved
            16, 16, 16, 0, 0, 0, 0, 0, // rows of tiles 0 to 7
            0, 0, 0, 0, 0, 0, 0, 0, // reserved
        ];
        assert_eq!(product(16, 16, 64).unwrap().record(), largest);
        // Five rows by seven columns, twelve products each: sums 5 x 28 bytes, left 5 x 12 bytes,
        // right 3 x 28 bytes.
        #[rustfmt::skip]
        let odd = [
            1, 0,   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            28, 0,  12, 0,  28, 0,  0, 0,  0, 0,  0, 0,  0, 0,  0, 0,
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            5, 5, 3, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(product(5, 7, 12).unwrap().record(), odd);
        // Two bytes of the bytes in a row, the low one first.
        let wide = Palette {
            row_bytes: 0x140,
            product_row_bytes: 0x140,
            ..PALETTE
        };
        let shape = TileProduct {
            m: 1,
            n: 0x50,
            k: 4,
        };
        let record = TileConfig::for_product(&wide, shape).unwrap().record();
        assert_eq!(record[16..22], [0x40, 0x01, 4, 0, 0x40, 0x01]);
    }

    #[test]
    fn the_largest_product_is_palette_ones() {
        let largest = TileProduct::largest(&PALETTE);
        assert_eq!(
            largest,
            TileProduct {
                m: 16,
                n: 16,
                k: 64
            }
        );
        assert!(TileConfig::for_product(&PALETTE, largest).is_ok());
    }

    #[test]
    fn what_the_cpu_would_fault_on_is_refused() {
        let told = |m, n, k| product(m, n, k).unwrap_err().to_string();
        assert_eq!(told(0, 1, 4), "a tile product of no rows");
        assert_eq!(told(1, 0, 4), "a tile product of no columns");
        assert_eq!(told(1, 1, 0), "a tile product of no products");
        assert_eq!(
            told(1, 1, 6),
            "a tile product of k = 6, not a multiple of 4"
        );
        assert_eq!(
            told(17, 1, 4),
            "a tile product wants 17 rows of a tile, the CPU has 16"
        );
        assert_eq!(
            told(1, 17, 4),
            "a tile product wants 68 bytes in a row of sums, the CPU has 64"
        );
        assert_eq!(
            told(1, 1, 68),
            "a tile product wants 17 rows of the right factor, the CPU has 16"
        );
        assert_eq!(
            told(1, u16::MAX, 4),
            "a tile product wants 262140 bytes in a row of sums, the CPU has 64"
        );
        let narrow = Palette {
            row_bytes: 32,
            ..PALETTE
        };
        let shape = TileProduct { m: 1, n: 1, k: 36 };
        let error = TileConfig::for_product(&narrow, shape).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a tile product wants 36 bytes in a row of a tile, the CPU has 32"
        );
        let two = Palette {
            tiles: 2,
            ..PALETTE
        };
        let shape = TileProduct { m: 1, n: 1, k: 4 };
        let error = TileConfig::for_product(&two, shape).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a tile product wants 3 tiles, the CPU has 2"
        );
    }
}
