//! How far a kernel is from what the machine allows.

use super::{ExecutionGraph, NodeId, NodeKind};
use crate::figure::Figure;

/// What a machine can do, as measured on it: the roofline model's two roofs (Williams, Waterman and
/// Patterson, 2009).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Floating-point operations per second.
    pub flops_per_s: f64,
    /// Bytes per second, from the memory that the kernels' declared bytes are in.
    pub bytes_per_s: f64,
}

/// Which roof a kernel is under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// More bandwidth would help.
    Memory,
    /// More arithmetic would help.
    Compute,
}

/// A kernel under its roof.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofline {
    /// Declared operations per declared byte.
    pub intensity: f64,
    /// `declared flops / measured own time`, per second.
    pub achieved_flops_per_s: f64,
    /// `min(flops_per_s, intensity * bytes_per_s)`.
    pub attainable_flops_per_s: f64,
    /// Which of the two that is.
    pub bound: Bound,
}

impl Roofline {
    /// What is missing to the roof, as a share of it: 0 is on it. Less than 0 where the declared bytes
    /// did not all come from the memory that was measured.
    #[must_use]
    pub fn distance(&self) -> Figure {
        Figure::Derived {
            value: 1.0 - self.achieved_flops_per_s / self.attainable_flops_per_s,
            from: "declared flops and bytes, measured time and ceilings",
        }
    }
}

impl ExecutionGraph {
    /// The kernel `id` under its roof.
    ///
    /// # Errors
    /// Why that can't be said: what is not known of it.
    pub fn roofline(&self, id: NodeId, ceilings: Ceilings) -> Result<Roofline, &'static str> {
        let node = self.node(id);
        let NodeKind::Kernel { flops, .. } = node.kind else {
            return Err("not a kernel");
        };
        let flops = flops.ok_or("it declares no flops")?;
        let intensity = node
            .kind
            .arithmetic_intensity()
            .ok_or("it declares no bytes")?;
        if node.own_ns == 0 {
            return Err("it took less than the clock's resolution");
        }
        let under_memory = intensity * ceilings.bytes_per_s;
        Ok(Roofline {
            intensity,
            achieved_flops_per_s: flops as f64 / node.own_ns as f64 * 1e9,
            attainable_flops_per_s: ceilings.flops_per_s.min(under_memory),
            bound: match under_memory < ceilings.flops_per_s {
                true => Bound::Memory,
                false => Bound::Compute,
            },
        })
    }
}
