//! What the kernels use of this CPU, and why not AMX.

use brick_kernels::Selection;
use brick_kernels::simd_config::{
    Amx, Palette, PermissionError, TileConfig, TileProduct, TileState, request_tiles,
};
use serde::Serialize;
use std::io::{self, Write};

/// What the kernels of this process are.
#[derive(Debug, Serialize)]
pub(super) struct Kernels {
    /// As [`Selection`] names it; null where the environment asks for what there is not.
    instruction_set: Option<&'static str>,
    /// What products with quantised weights take: `int8` or `f32`.
    activations: Option<&'static str>,
    tiles: Option<Tiles>,
    /// Why nothing is selected.
    problem: Option<String>,
}

/// Rows and tokens whose sums stay in registers together.
#[derive(Debug, Serialize)]
struct Tiles {
    f32_rows: usize,
    f32_tokens: usize,
    int8_tokens: usize,
    int8_tokens_sub_blocks: usize,
    #[serde(skip)]
    told: String,
}

/// What there is of AMX; everything is read from the CPU and the system, here and now.
#[derive(Debug, Serialize)]
pub(super) struct AmxReport {
    /// Why the kernels do not use it.
    not_used: String,
    features: Features,
    /// Where the features, palette and state are read.
    source: &'static str,
    palette: Option<Limits>,
    state: Option<State>,
    /// The parts of a thread's state that the system saves, in hexadecimal.
    xcr0: Option<String>,
    /// Null if Linux permits tiles to this process, else why it does not.
    refused: Option<String>,
    record: Option<Record>,
}

#[derive(Debug, Serialize)]
struct Features {
    tile: bool,
    int8: bool,
    bf16: bool,
}

#[derive(Debug, Serialize)]
struct Limits {
    tiles: u16,
    tile_bytes: u16,
    rows: u16,
    row_bytes: u16,
    product_rows: u8,
    product_row_bytes: u16,
}

#[derive(Debug, Serialize)]
struct State {
    config_bytes: u32,
    data_bytes: u32,
}

/// What LDTILECFG would load for the largest product of bytes.
#[derive(Debug, Serialize)]
struct Record {
    m: u16,
    n: u16,
    k: u16,
    /// 64 bytes in hexadecimal.
    bytes: String,
}

impl Kernels {
    pub(super) fn examine() -> Self {
        match brick_kernels::selection() {
            Ok(Selection {
                instruction_set,
                rounds_activations,
                unroll,
            }) => Self {
                instruction_set: Some(instruction_set),
                activations: Some(if rounds_activations { "int8" } else { "f32" }),
                tiles: Some(Tiles {
                    f32_rows: unroll.rows,
                    f32_tokens: unroll.tokens,
                    int8_tokens: unroll.int8_tokens,
                    int8_tokens_sub_blocks: unroll.int8_tokens_sub_blocks,
                    told: unroll.to_string(),
                }),
                problem: None,
            },
            Err(error) => Self {
                instruction_set: None,
                activations: None,
                tiles: None,
                problem: Some(error.to_string()),
            },
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        match (self.instruction_set, self.activations, &self.tiles) {
            (Some(set), Some(activations), Some(tiles)) => writeln!(
                out,
                "kernels   {set}, activations {activations}; tiles of rows x tokens in registers: {}",
                tiles.told
            ),
            _ => {
                let why = self.problem.as_deref().unwrap_or_default();
                writeln!(out, "kernels   n/a ({why})")
            }
        }
    }
}

impl AmxReport {
    pub(super) fn examine() -> Self {
        Self::of(Amx::detect(), request_tiles())
    }

    fn of(amx: Amx, permission: Result<(), PermissionError>) -> Self {
        Self {
            refused: permission.as_ref().err().map(ToString::to_string),
            not_used: amx.obstacle(permission).to_string(),
            features: Features {
                tile: amx.tile,
                int8: amx.int8,
                bf16: amx.bf16,
            },
            source: "CPUID leaves 7, 0DH, 1DH and 1EH",
            palette: amx.palette.map(Limits::from),
            state: amx.state.map(
                |TileState {
                     config_bytes,
                     data_bytes,
                 }| State {
                    config_bytes,
                    data_bytes,
                },
            ),
            xcr0: amx.xcr0.map(|xcr0| format!("{xcr0:#x}")),
            record: amx.palette.as_ref().and_then(Record::largest),
        }
    }

    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "amx       not used: {}", self.not_used)?;
        let Features { tile, int8, bf16 } = self.features;
        let has: Vec<_> = [(tile, "AMX-TILE"), (int8, "AMX-INT8"), (bf16, "AMX-BF16")]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect();
        let mut parts = vec![if has.is_empty() {
            "nothing of it".to_owned()
        } else {
            has.join(", ")
        }];
        if let Some(limits) = &self.palette {
            let Limits {
                tiles,
                rows,
                row_bytes,
                ..
            } = limits;
            parts.push(format!("{tiles} tiles of {rows} rows of {row_bytes} bytes"));
        }
        if let Some(State { data_bytes, .. }) = self.state {
            parts.push(format!(
                "{data_bytes} bytes of tiles in a thread's XSAVE area"
            ));
        }
        let xcr0 = self.xcr0.as_deref().unwrap_or("n/a");
        let permits = self
            .refused
            .as_deref()
            .unwrap_or("tiles are permitted to this process");
        writeln!(out, "          cpu: {}", parts.join("; "))?;
        writeln!(out, "          system: XCR0 {xcr0}; {permits}")?;
        match &self.record {
            Some(Record { m, n, k, bytes }) => writeln!(
                out,
                "          tile record for {m} x {k} by {k} x {n} bytes: {bytes}"
            ),
            None => Ok(()),
        }
    }
}

impl From<Palette> for Limits {
    fn from(palette: Palette) -> Self {
        Self {
            tiles: palette.tiles,
            tile_bytes: palette.tile_bytes,
            rows: palette.rows,
            row_bytes: palette.row_bytes,
            product_rows: palette.product_rows,
            product_row_bytes: palette.product_row_bytes,
        }
    }
}

impl Record {
    /// None where the palette's numbers leave no product.
    fn largest(palette: &Palette) -> Option<Self> {
        let product = TileProduct::largest(palette);
        let record = TileConfig::for_product(palette, product).ok()?.record();
        let TileProduct { m, n, k } = product;
        Some(Self {
            m,
            n,
            k,
            bytes: record.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What no machine of the tests has to show.
    #[test]
    fn a_machine_with_amx_is_told_what_it_has_and_why_it_is_not_used() {
        let amx = Amx {
            tile: true,
            int8: true,
            bf16: true,
            palette: Some(Palette {
                tiles: 8,
                tile_bytes: 1024,
                row_bytes: 64,
                rows: 16,
                product_rows: 16,
                product_row_bytes: 64,
            }),
            state: Some(TileState {
                config_bytes: 64,
                data_bytes: 8192,
            }),
            xcr0: Some(0x602e7),
        };
        let mut text = Vec::new();
        AmxReport::of(amx, Ok(())).print(&mut text).unwrap();
        let record = format!(
            "0100{}400040004000{}101010{}",
            "00".repeat(14),
            "00".repeat(26),
            "00".repeat(13)
        );
        let expected = format!(
            "amx       not used: no kernel uses it: an AMX dot product could not be tested\n\
             \x20         cpu: AMX-TILE, AMX-INT8, AMX-BF16; 8 tiles of 16 rows of 64 bytes; 8192 bytes \
             of tiles in a thread's XSAVE area\n\
             \x20         system: XCR0 0x602e7; tiles are permitted to this process\n\
             \x20         tile record for 16 x 64 by 64 x 16 bytes: {record}\n"
        );
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
