//! `--roofline`: what this machine can do, measured, and how far each brick is from it.

use crate::progress::Progress;
use anyhow::Result;
use brick_kernels::ceilings::{MachineCeilings, Plan, Roofs, Spread};
use brick_runtime::graph::Ceilings;
use brick_runtime::{BrickStats, Figure, Snapshot};
use serde::Serialize;
use std::io::{self, Write};

/// Measures this machine on as many threads as kernels have here.
///
/// # Errors
/// If there is no memory for a buffer to read.
pub(super) fn measure() -> Result<MachineCeilings> {
    let _progress = Progress::new("measuring what this machine can do", 0);
    Ok(MachineCeilings::measure(&Plan::for_this_machine(), |_| ())?)
}

/// What was measured of the machine, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    f32_instructions: &'static str,
    byte_instructions: Option<&'static str>,
    memory_bytes: usize,
    cache_bytes_per_thread: usize,
    last_level_cache_bytes: Option<usize>,
    roofs: Vec<MachineRoofs>,
}

/// On one number of threads.
#[derive(Debug, Serialize)]
struct MachineRoofs {
    threads: usize,
    memory_read_gb_per_s: Rate,
    cache_read_gb_per_s: Rate,
    f32_gflop_per_s: Rate,
    byte_dot_gop_per_s: Rate,
}

/// In billions a second: the best of some repeats, which is the roof, their median, and the quartiles around
/// it.
#[derive(Debug, Serialize)]
struct Rate {
    #[serde(flatten)]
    best: Figure,
    median: Option<f64>,
    quartiles: Option<[f64; 2]>,
    repeats: usize,
}

impl From<Option<Spread>> for Rate {
    fn from(spread: Option<Spread>) -> Rate {
        match spread {
            Some(s) => Rate {
                best: Figure::Measured(s.best / 1e9),
                median: Some(s.median / 1e9),
                quartiles: Some([s.low / 1e9, s.high / 1e9]),
                repeats: s.repeats,
            },
            None => Rate {
                best: Figure::unavailable("no known instruction of this CPU does that"),
                median: None,
                quartiles: None,
                repeats: 0,
            },
        }
    }
}

impl From<&Roofs> for MachineRoofs {
    fn from(roofs: &Roofs) -> MachineRoofs {
        MachineRoofs {
            threads: roofs.threads,
            memory_read_gb_per_s: Some(roofs.memory_read).into(),
            cache_read_gb_per_s: Some(roofs.cache_read).into(),
            f32_gflop_per_s: Some(roofs.multiply_add).into(),
            byte_dot_gop_per_s: roofs.byte_dot.into(),
        }
    }
}

impl From<&MachineCeilings> for Machine {
    fn from(machine: &MachineCeilings) -> Machine {
        let all = (machine.all.threads > 1).then_some(&machine.all);
        Machine {
            f32_instructions: machine.f32_instructions,
            byte_instructions: machine.byte_instructions,
            memory_bytes: machine.memory_bytes,
            cache_bytes_per_thread: machine.cache_bytes,
            last_level_cache_bytes: machine.last_level_cache,
            roofs: [&machine.one]
                .into_iter()
                .chain(all)
                .map(Into::into)
                .collect(),
        }
    }
}

impl Machine {
    /// A table for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mib = |bytes: usize| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
        let last = match self.last_level_cache_bytes {
            Some(bytes) => format!("the last-level cache has {}", mib(bytes)),
            None => "how large the last-level cache is, is not known".to_owned(),
        };
        writeln!(
            out,
            "\nwhat this machine can do (measured: the best of {} repeats, their median and quartiles)",
            self.roofs[0].f32_gflop_per_s.repeats
        )?;
        write!(out, "{:27}", "")?;
        for roofs in &self.roofs {
            let threads = match roofs.threads {
                1 => "1 thread".to_owned(),
                n => format!("{n} threads"),
            };
            write!(out, "  {threads:>27}")?;
        }
        writeln!(out)?;
        type Of = fn(&MachineRoofs) -> &Rate;
        let rows: [(&str, Of); 4] = [
            ("memory read         GB/s", |r| &r.memory_read_gb_per_s),
            ("cache read          GB/s", |r| &r.cache_read_gb_per_s),
            ("f32 multiply-add GFLOP/s", |r| &r.f32_gflop_per_s),
            ("int8 dot product   GOP/s", |r| &r.byte_dot_gop_per_s),
        ];
        for (name, of) in rows {
            write!(out, "{name:27}")?;
            for roofs in &self.roofs {
                write!(out, "  {:>27}", of(roofs).shown())?;
            }
            writeln!(out)?;
        }
        writeln!(
            out,
            "memory: {} read, {last}; cache: {} KiB a thread; f32 by {}, int8 by {}",
            mib(self.memory_bytes),
            self.cache_bytes_per_thread >> 10,
            self.f32_instructions,
            self.byte_instructions.unwrap_or("nothing known"),
        )
    }
}

impl Rate {
    fn shown(&self) -> String {
        match (self.median, self.quartiles) {
            (Some(median), Some([low, high])) => {
                format!("{:.1}, {median:.1} ({low:.1}–{high:.1})", self.best)
            }
            _ => "n/a".to_owned(),
        }
    }
}

/// A brick under its roof.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    brick: &'static str,
    flop_per_byte: Figure,
    gb_per_s: Figure,
    gflop_per_s: Figure,
    /// The lowest roof that it is not above: `"memory"`, `"cache"` or `"compute"`.
    roof: Option<&'static str>,
    /// How much of that roof was reached; 1 is on it.
    share_of_roof: Figure,
    /// What is missing to it.
    roofline_distance: Figure,
}

impl Row {
    fn new(brick: &BrickStats, ceilings: Ceilings) -> Row {
        let roofline = brick.roofline(ceilings);
        let unknown = |why: &&'static str| Figure::unavailable(*why);
        Row {
            brick: brick.info().name,
            flop_per_byte: brick.flop_per_byte(),
            gb_per_s: brick.gb_per_s(),
            gflop_per_s: brick.gflop_per_s(),
            roof: roofline.as_ref().ok().map(|known| known.bound.name()),
            share_of_roof: roofline.as_ref().map_or_else(unknown, |r| r.share()),
            roofline_distance: roofline.as_ref().map_or_else(unknown, |r| r.distance()),
        }
    }
}

/// Every brick, the one with the largest share of the time first.
pub(super) fn rows(bricks: &Snapshot, ceilings: Ceilings) -> Vec<Row> {
    let mut sorted: Vec<&BrickStats> = bricks.bricks().iter().collect();
    sorted.sort_by(|a, b| b.self_ns().total_cmp(&a.self_ns()));
    let row = |brick: &BrickStats| Row::new(brick, ceilings);
    sorted.into_iter().map(row).collect()
}

/// A table for people, of the phase called `name`.
///
/// # Errors
/// Those of `out`.
pub(super) fn print(
    rows: &[Row],
    name: &str,
    threads: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let width = rows.iter().map(|row| row.brick.len()).max();
    let width = width.unwrap_or(0).max("brick".len());
    writeln!(
        out,
        "\n{name} under the roofs of {threads} thread{} (derived from declared work, measured time and ceilings)",
        if threads == 1 { "" } else { "s" },
    )?;
    writeln!(
        out,
        "{:width$}  {:>9}  {:>8}  {:>8}  {:7}  {:>9}",
        "brick", "flop/byte", "GB/s", "GFLOP/s", "roof", "% of roof"
    )?;
    let cell = |figure: &Figure, scale: f64| match figure.value() {
        Some(value) => format!("{:.2}", scale * value),
        None => "–".to_owned(),
    };
    for row in rows {
        writeln!(
            out,
            "{:width$}  {:>9}  {:>8}  {:>8}  {:7}  {:>9}",
            row.brick,
            cell(&row.flop_per_byte, 1.0),
            cell(&row.gb_per_s, 1.0),
            cell(&row.gflop_per_s, 1.0),
            row.roof.unwrap_or("–"),
            cell(&row.share_of_roof, 100.0),
        )?;
    }
    writeln!(
        out,
        "roof: the lowest that a brick is not above; cache, where its bytes came faster than memory gives them; \
         compute is that of f32: products with quantised weights multiply integers, and may be above it"
    )
}
