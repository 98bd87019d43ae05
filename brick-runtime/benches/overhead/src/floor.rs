//! What can't be had for less: the body, and two reads of the clock around it.

use std::hint::black_box;
use std::time::Instant;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has `rdtsc`.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn ticks() -> u64 {
    let ticks: u64;
    // SAFETY: reads a counter that user mode may read.
    unsafe {
        std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
    };
    ticks
}

#[inline(never)]
pub fn bare(x: u64) -> u64 {
    black_box(x + 1)
}

#[inline(never)]
pub fn two_reads(x: u64) -> u64 {
    let begin = ticks();
    let result = black_box(x + 1);
    black_box(ticks().wrapping_sub(begin));
    result
}

#[inline(never)]
pub fn two_instants(x: u64) -> u64 {
    let begin = Instant::now();
    let result = black_box(x + 1);
    black_box(begin.elapsed());
    result
}

/// The floor of a parent with one child.
#[inline(never)]
pub fn nested(x: u64) -> u64 {
    let begin = ticks();
    let result = two_reads(black_box(x + 1));
    black_box(ticks().wrapping_sub(begin));
    result
}
