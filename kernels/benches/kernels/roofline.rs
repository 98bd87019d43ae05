//! Criterion's wall clock, with throughputs as parts of the machine's ceilings.

use std::cell::Cell;
use std::time::{Duration, Instant};

use brick_kernels::ceilings::{MachineCeilings, Plan, Roofs};
use criterion::Throughput;
use criterion::measurement::{Measurement, ValueFormatter};

use super::Group;

/// What one call does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Operations; a multiply-add is two.
    pub(crate) flops: usize,
    /// Bytes read and written.
    pub(crate) bytes: usize,
    pub(crate) arithmetic: Arithmetic,
    pub(crate) from: From,
    pub(crate) threads: Threads,
}

impl Work {
    /// `f32` arithmetic of one thread, in its cache.
    pub(crate) fn small(flops: usize, bytes: usize) -> Self {
        Self {
            flops,
            bytes,
            arithmetic: Arithmetic::F32,
            from: From::Cache,
            threads: Threads::One,
        }
    }
}

/// What is multiplied.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arithmetic {
    F32,
    Bytes,
}

/// Where the data lie.
#[derive(Debug, Clone, Copy)]
pub(crate) enum From {
    /// In the cores' own caches.
    Cache,
    Memory,
}

/// How many threads take part.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Threads {
    One,
    All,
}

/// A rate that cannot be exceeded.
#[derive(Debug, Clone, Copy)]
struct Roof {
    name: &'static str,
    per_s: f64,
}

thread_local! {
    /// What the kernel does that is being measured: all that criterion tells its formatter is times.
    static WORK: Cell<Option<Work>> = const { Cell::new(None) };
}

/// Wall time, and the ceilings that it is compared with.
pub(crate) struct Roofline {
    machine: MachineCeilings,
}

impl Roofline {
    /// Measures the ceilings and prints them.
    pub(crate) fn measure() -> Self {
        let machine = MachineCeilings::measure(&Plan::for_this_machine(), |_| ());
        let machine = machine.expect("memory for a buffer");
        for roofs in [&machine.one, &machine.all] {
            let giga = |rate: f64| rate / 1e9;
            let bytes = roofs.byte_dot.map_or_else(
                || "unavailable: no instruction for it".to_owned(),
                |rate| format!("{:.0} GOP/s", giga(rate.best)),
            );
            println!(
                "ceilings of {} thread(s): memory {:.1} GB/s, caches {:.0} GB/s, f32 {:.0} GFLOP/s \
                 ({}), bytes {bytes} ({})",
                roofs.threads,
                giga(roofs.memory_read.best),
                giga(roofs.cache_read.best),
                giga(roofs.multiply_add.best),
                machine.f32_instructions,
                machine.byte_instructions.unwrap_or("none"),
            );
        }
        Self { machine }
    }

    fn roofs_over(&self, work: Work) -> [Option<Roof>; 2] {
        let roofs: &Roofs = match work.threads {
            Threads::One => &self.machine.one,
            Threads::All => &self.machine.all,
        };
        let roof = |name, per_s| Some(Roof { name, per_s });
        let arithmetic = match work.arithmetic {
            Arithmetic::F32 => roof("f32", roofs.multiply_add.best),
            Arithmetic::Bytes => roofs
                .byte_dot
                .and_then(|rate| roof("bytes multiplied", rate.best)),
        };
        let bytes = match work.from {
            From::Cache => roof("cache", roofs.cache_read.best),
            From::Memory => roof("memory", roofs.memory_read.best),
        };
        [arithmetic, bytes]
    }
}

/// Measures `call`, which does `work`.
pub(crate) fn bench<T>(group: &mut Group<'_>, name: &str, work: Work, mut call: impl FnMut() -> T) {
    group.throughput(match (work.flops as u64, work.bytes as u64) {
        (0, bytes) => Throughput::Bytes(bytes),
        (elements, bytes) => Throughput::ElementsAndBytes { elements, bytes },
    });
    WORK.set(Some(work));
    group.bench_function(name, |b| b.iter(&mut call));
}

impl Measurement for Roofline {
    type Intermediate = Instant;
    type Value = Duration;

    fn start(&self) -> Instant {
        Instant::now()
    }

    fn end(&self, start: Instant) -> Duration {
        start.elapsed()
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self
    }
}

/// Units of work, and how many of a unit's are one.
fn unit(throughput: &Throughput) -> (f64, &'static str, usize) {
    match *throughput {
        Throughput::Bytes(n) | Throughput::BytesDecimal(n) => (n as f64, "GB/s", 1),
        Throughput::Bits(n) => (n as f64 / 8.0, "GB/s", 1),
        Throughput::Elements(n) | Throughput::ElementsAndBytes { elements: n, .. } => {
            (n as f64, "GFLOP/s", 0)
        }
    }
}

/// Times in ns as rates.
impl ValueFormatter for Roofline {
    fn format_throughput(&self, throughput: &Throughput, ns: f64) -> String {
        let (amount, unit, which) = unit(throughput);
        let rate = amount / ns;
        match WORK.get().and_then(|work| self.roofs_over(work)[which]) {
            Some(Roof { name, per_s }) => {
                let percent = 100.0 * rate * 1e9 / per_s;
                format!("{rate:.1} {unit} ({percent:.0} % of {name})")
            }
            None => format!("{rate:.1} {unit}"),
        }
    }

    fn scale_values(&self, typical: f64, values: &mut [f64]) -> &'static str {
        let (factor, unit) = match typical {
            ..1e3 => (1.0, "ns"),
            ..1e6 => (1e-3, "µs"),
            _ => (1e-6, "ms"),
        };
        values.iter_mut().for_each(|value| *value *= factor);
        unit
    }

    fn scale_throughputs(&self, _: f64, of: &Throughput, values: &mut [f64]) -> &'static str {
        let (amount, unit, _) = unit(of);
        values.iter_mut().for_each(|ns| *ns = amount / *ns);
        unit
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        "ns"
    }
}
