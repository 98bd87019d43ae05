//! An escalated call as a span.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::breakdown::{SyscallBreakdown, SyscallCategory};
use super::call::EscalatedCall;
use super::syscall::syscall_name;
use crate::span::{Attributes, Resource, SpanRecord, code_attributes, keys};

impl EscalatedCall<'_> {
    /// A span of this call, in a trace of its own: its brick, why it was escalated, and where its time
    /// went. What is not known is left out.
    #[must_use]
    pub fn span(&self, resource: impl Into<Arc<Resource>>) -> SpanRecord {
        let span = SpanRecord::root(
            self.brick.name,
            unix_ns(self.start),
            unix_ns(self.end),
            resource,
        );
        let why = Attributes::new()
            .and(keys::ESCALATION_REASON, self.reason.name())
            .and_if(keys::ESCALATION_CV, self.reason.cv())
            .and_if(keys::ESCALATION_EFFICIENCY, self.reason.efficiency())
            .and_if(keys::ESCALATION_BUDGET_US, self.budget_us)
            .and(keys::ESCALATION_DURATION_US, self.duration_us)
            .and_if(
                keys::ESCALATION_NO_BREAKDOWN,
                self.no_breakdown.map(String::from),
            );
        let span = span.with(code_attributes(self.brick)).with(why);
        match self.breakdown {
            Some(breakdown) => SpanRecord {
                tid: breakdown.caller().map(|caller| caller.tid.into()),
                ..span.with(attributes(breakdown))
            },
            None => span,
        }
    }
}

fn unix_ns(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Of the calling thread, and who waited meanwhile.
fn attributes(breakdown: &SyscallBreakdown) -> Attributes {
    let key = |name: &str, unit: &str| format!("{}{name}_{unit}", keys::SYSCALLS);
    let mut all = Attributes::new().and(keys::ESCALATION_BACKEND, breakdown.backend.name());
    for category in SyscallCategory::ALL {
        let us = breakdown.us(category).value();
        // Where times are not known, neither is how many.
        let calls = us.and(breakdown.caller());
        let calls = calls.map(|caller| caller.of(category).calls);
        all = all
            .and_if(key(category.name(), "us"), us)
            .and_if(key(category.name(), "calls"), calls);
    }
    for (name, figure) in [
        ("compute", &breakdown.compute_us),
        ("tracer", &breakdown.tracer_us),
        ("wall", &breakdown.wall_us),
        ("cpu", &breakdown.cpu_us),
        ("run_queue", &breakdown.run_queue_us),
        ("blocked", &breakdown.blocked_us),
        ("resolution", &breakdown.resolution_us),
    ] {
        all = all.and_if(key(name, "us"), figure.value());
    }
    all.and_if(keys::ESCALATION_PARTIAL, breakdown.partial.clone())
        .and_if(keys::ESCALATION_WAITING, waiting(breakdown))
}

/// `pool 1 (8579): futex` and the like.
fn waiting(breakdown: &SyscallBreakdown) -> Option<String> {
    let threads = breakdown.threads.iter().filter_map(|thread| {
        let number = thread.blocked_in?;
        let call = syscall_name(number).map_or_else(|| number.to_string(), String::from);
        let name = thread.name.as_deref().unwrap_or("?");
        Some(format!("{name} ({}): {call}", thread.tid))
    });
    let threads: Vec<String> = threads.collect();
    (!threads.is_empty()).then(|| threads.join(", "))
}
