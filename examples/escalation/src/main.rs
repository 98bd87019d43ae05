//! A brick that is over its budget, and the system calls that say why.
//!
//! ```console
//! $ cargo run --release -p escalation
//! Lookup is escalated: efficiency 0.5 %
//!   mmap          2.6 µs
//!   futex         0.0 µs
//!   ioctl         0.0 µs
//!   read        229.3 µs
//!   write         0.0 µs
//!   other         7.9 µs
//!   compute     239.6 µs
//!   50.0 % of its time in system calls
//! found 0; all other calls are in the statistics: true
//! ```

use std::fs::File;
use std::io::{self, Read};

use brick_runtime::tracer::{BrickTracer, EscalationThresholds, SyscallCategory};
use brick_runtime::{BrickProfiler, brick};

brick_runtime::bricks!();

/// Looks a key up in a table of 4 MiB, which somebody thought was in memory.
#[brick(id = Lookup, budget_us = 5)]
fn lookup(key: usize) -> io::Result<u8> {
    let mut table = vec![0; 4 << 20];
    File::open("/dev/zero")?.read_exact(&mut table)?;
    Ok(table[key % table.len()])
}

fn main() -> io::Result<()> {
    let profiler = BrickProfiler::global();
    if let Some(why) = profiler.snapshot().unavailable() {
        println!("nothing is escalated: {why}");
        return Ok(());
    }
    // How much the time varies says little of a machine that does other things too.
    let tracer = BrickTracer::with_thresholds(EscalationThresholds {
        cv: f64::INFINITY,
        ..EscalationThresholds::default()
    });
    // In a real program this is the call that there is anyway; here it is made until it stands out.
    let mut plain = 0;
    let (traced, reason) = loop {
        let traced = tracer.trace(BrickId::Lookup, 5, || lookup(7));
        if let Some(reason) = traced.escalation_reason {
            break (traced, reason);
        }
        plain += 1;
    };
    println!("Lookup is escalated: {reason}");
    let value = traced.result?;
    match &traced.syscall_breakdown {
        Some(breakdown) => {
            for category in SyscallCategory::ALL {
                println!(
                    "  {:<7} {:>9.1} µs",
                    category.name(),
                    breakdown.us(category)
                );
            }
            println!("  {:<7} {:>9.1} µs", "compute", breakdown.compute_us);
            if let Some(share) = breakdown.syscall_share().value() {
                println!("  {:.1} % of its time in system calls", 100.0 * share);
            }
        }
        None => println!("  {}", traced.no_breakdown.as_deref().unwrap_or_default()),
    }
    let recorded = profiler
        .brick_stats(BrickId::Lookup)
        .map(|lookup| lookup.calls());
    println!(
        "found {value}; all other calls are in the statistics: {}",
        recorded == Some(plain)
    );
    Ok(())
}
