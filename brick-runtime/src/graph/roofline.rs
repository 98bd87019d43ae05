//! How far a kernel is from what the machine allows.

use std::fmt;

use super::{ExecutionGraph, NodeId, NodeKind};
use crate::figure::Figure;
use crate::stats::BrickStats;

/// What a machine can do, as measured on it: the roofs of the roofline model (Williams, Waterman and
/// Patterson, 2009).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Floating-point operations per second.
    pub flops_per_s: f64,
    /// Bytes per second from memory.
    pub bytes_per_s: f64,
    /// Bytes per second from a cache, if that was measured.
    pub cache_bytes_per_s: Option<f64>,
}

/// `"memory 11.2 GB/s, cache 80.5 GB/s, compute 95.0 GFLOP/s"`.
impl fmt::Display for Ceilings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory {:.1} GB/s, ", self.bytes_per_s / 1e9)?;
        if let Some(cache) = self.cache_bytes_per_s {
            write!(f, "cache {:.1} GB/s, ", cache / 1e9)?;
        }
        write!(f, "compute {:.1} GFLOP/s", self.flops_per_s / 1e9)
    }
}

/// Which roof a kernel is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// More bandwidth of the memory would help.
    Memory,
    /// Its bytes came faster than memory can give them: they were in a cache, whose bandwidth is next.
    Cache,
    /// More arithmetic would help.
    Compute,
}

impl Bound {
    /// `"memory"`, `"cache"` or `"compute"`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Cache => "cache",
            Bound::Compute => "compute",
        }
    }
}

/// A kernel under its roof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Declared operations per declared byte.
    pub intensity: f64,
    /// `declared flops / measured time`, per second.
    pub achieved_flops_per_s: f64,
    /// `min(flops_per_s, intensity * bytes_per_s)`; with the cache's bandwidth where memory's is
    /// exceeded.
    pub attainable_flops_per_s: f64,
    /// Which of them that is.
    pub bound: Bound,
}

impl Ceilings {
    /// `flops` of `bytes` in `ns` under the lowest roof that they are not above.
    fn over(&self, flops: u64, bytes: u64, ns: f64) -> Roofline {
        let intensity = flops as f64 / bytes as f64;
        let achieved = flops as f64 / ns * 1e9;
        let memory = (intensity * self.bytes_per_s, Bound::Memory);
        let cache = self
            .cache_bytes_per_s
            .map(|bytes_per_s| (intensity * bytes_per_s, Bound::Cache));
        let (under_bandwidth, which) = match cache {
            Some(cache) if achieved > memory.0 => cache,
            _ => memory,
        };
        let (attainable_flops_per_s, bound) = match under_bandwidth < self.flops_per_s {
            true => (under_bandwidth, which),
            false => (self.flops_per_s, Bound::Compute),
        };
        Roofline {
            intensity,
            achieved_flops_per_s: achieved,
            attainable_flops_per_s,
            bound,
        }
    }
}

impl Roofline {
    fn derived(value: f64) -> Figure {
        Figure::Derived {
            value,
            from: "declared flops and bytes, measured time and ceilings",
        }
    }

    /// How much of the roof was reached: 1 is on it. More than 1 where the kernel has means that the
    /// ceilings were not measured with.
    #[must_use]
    pub fn share(&self) -> Figure {
        Roofline::derived(self.achieved_flops_per_s / self.attainable_flops_per_s)
    }

    /// What is missing to the roof, as a share of it: 0 is on it. Less than 0 where the declared bytes
    /// did not all come from the memory that was measured.
    #[must_use]
    pub fn distance(&self) -> Figure {
        Roofline::derived(1.0 - self.achieved_flops_per_s / self.attainable_flops_per_s)
    }
}

impl ExecutionGraph {
    /// The kernel `id` under its roof.
    ///
    /// # Errors
    /// Why that can't be said: what is not known of it.
    pub fn roofline(&self, id: NodeId, ceilings: Ceilings) -> Result<Roofline, &'static str> {
        let node = self.node(id);
        let NodeKind::Kernel { flops, bytes } = node.kind else {
            return Err("not a kernel");
        };
        let flops = flops.ok_or("it declares no flops")?;
        let bytes = bytes.filter(|&bytes| bytes > 0);
        let bytes = bytes.ok_or("it declares no bytes")?;
        if node.own_ns == 0 {
            return Err("it took less than the clock's resolution");
        }
        Ok(ceilings.over(flops, bytes, node.own_ns as f64))
    }

    /// The graph of kernels of a machine that can do so much: what is written says how far each is from
    /// it.
    #[must_use]
    pub fn under(mut self, ceilings: Ceilings) -> ExecutionGraph {
        self.ceilings = Some(ceilings);
        self
    }
}

impl BrickStats {
    /// All timed calls of the brick under their roof, by their inclusive time.
    ///
    /// # Errors
    /// Why that can't be said: what is not known of it.
    pub fn roofline(&self, ceilings: Ceilings) -> Result<Roofline, &'static str> {
        match (self.flops(), self.bytes(), self.total_ns()) {
            (0, ..) => Err("no `flops` declared"),
            (_, 0, _) => Err("no `bytes` declared"),
            (_, _, ns) if ns <= 0.0 => Err("no timed call"),
            (flops, bytes, ns) => Ok(ceilings.over(flops, bytes, ns)),
        }
    }
}
