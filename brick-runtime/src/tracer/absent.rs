//! In place of the backends where they are not compiled in.

use std::num::NonZeroUsize;

use super::breakdown::{BackendProblem, SyscallBreakdown, TraceBackend};
use crate::figure::Figure;

const WHY: &str = if !cfg!(feature = "visualization") {
    crate::snapshot::BUILT_WITHOUT
} else if !cfg!(feature = "tracer") {
    "built without `tracer`"
} else {
    "built for a system without backends: they need 64-bit Linux"
};

/// What a tracer observes with: nothing.
#[derive(Debug, Default)]
pub(super) struct Observer {}

/// There is none.
#[derive(Debug)]
pub(super) enum Observation {}

impl Observer {
    pub(super) fn only(&mut self, _backend: TraceBackend) {}

    pub(super) fn ring_pages(&mut self, _pages: NonZeroUsize) {}

    pub(super) fn rest(&self) {}

    pub(super) fn start(&self) -> Result<Observation, BackendProblem> {
        Err(BackendProblem {
            backend: TraceBackend::Cpu,
            why: WHY.into(),
            errno: None,
            fix: None,
        })
    }
}

impl Observation {
    pub(super) fn added_ns(&self) -> Figure {
        match *self {}
    }

    pub(super) fn end(self) -> SyscallBreakdown {
        match self {}
    }
}
