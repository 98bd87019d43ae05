//! The clock: the processor's cycle counter where it is one, `Instant` elsewhere.
//!
//! On x86-64 that is `rdtsc`, if CPUID says that it ticks at one rate through frequency changes
//! and sleep states; on aarch64 `CNTVCT_EL0`, which the architecture defines so. No fences: a
//! kernel takes longer than what the processor may reorder. Its rate is measured against
//! `Instant`, never taken from a table, and never before it is needed.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The counter and the clock, read as close together as can be had.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ticks: u64,
    instant: Instant,
}

static BASE: OnceLock<Pair> = OnceLock::new();

/// How long the rate is measured at least: the pairs are off by some 50 ns, so 1 ms gives 0.01 %.
const SHORTEST: Duration = Duration::from_millis(1);

/// Whether [`ticks`] may be used. `false` means [`slow_ticks`].
pub(crate) fn has_counter() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::__cpuid;
        // Leaf 0x8000_0007, EDX bit 8: invariant TSC (AMD APM vol. 3, Intel SDM vol. 2).
        let leaves = __cpuid(0x8000_0000).eax;
        leaves >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        true
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        false
    }
}

/// What [`any_ticks`] reads.
pub(crate) fn name() -> &'static str {
    match counted() {
        true if cfg!(target_arch = "aarch64") => "CNTVCT_EL0",
        true => "rdtsc",
        false => "Instant",
    }
}

/// The cycle counter; only where [`has_counter`].
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        // SAFETY: every x86-64 has `rdtsc`; an OS that forbids it would forbid `Instant` too.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let ticks: u64;
        // SAFETY: reads a counter that user mode may read; touches no memory, stack or flags.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags))
        };
        ticks
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    {
        slow_ticks()
    }
}

/// Nanoseconds of `Instant` since the clock's start: the ticks of a machine without a counter.
#[cold]
pub(crate) fn slow_ticks() -> u64 {
    let base = BASE.get_or_init(pair).instant;
    u64::try_from(base.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The clock of this machine, by whichever way.
pub(crate) fn any_ticks() -> u64 {
    if counted() { ticks() } else { slow_ticks() }
}

fn counted() -> bool {
    static COUNTED: OnceLock<bool> = OnceLock::new();
    *COUNTED.get_or_init(has_counter)
}

/// Starts the clock, so that its rate can be measured over all the time since.
pub(crate) fn start() {
    BASE.get_or_init(pair);
}

/// The best of a few tries: the one in which reading took the shortest.
fn pair() -> Pair {
    let tries = (0..8).map(|_| {
        let before = Instant::now();
        let ticks = if counted() { ticks() } else { 0 };
        let took = before.elapsed();
        (
            took,
            Pair {
                ticks,
                instant: before + took / 2,
            },
        )
    });
    tries.min_by_key(|&(took, _)| took).expect("eight tries").1
}

/// Nanoseconds per tick, measured from the clock's start to now (waiting until that is long
/// enough).
pub(crate) fn ns_per_tick() -> f64 {
    if !counted() {
        return 1.0;
    }
    let base = *BASE.get_or_init(pair);
    loop {
        let now = pair();
        let elapsed = now.instant.saturating_duration_since(base.instant);
        if elapsed >= SHORTEST {
            return elapsed.as_nanos() as f64 / now.ticks.saturating_sub(base.ticks).max(1) as f64;
        }
        std::hint::spin_loop();
    }
}

/// Nanoseconds in ticks, by a rate that is measured once: for budgets, which its last digits do
/// not turn.
#[inline]
pub(crate) fn from_ns(ns: u64) -> u64 {
    static TICKS_PER_NS: OnceLock<f64> = OnceLock::new();
    (ns as f64 * *TICKS_PER_NS.get_or_init(|| 1.0 / ns_per_tick())) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the operating system's clock over a sleep.
    #[test]
    #[cfg_attr(miri, ignore = "Miri's clock is virtual")]
    fn ticks_are_time() {
        start();
        let (t, i) = (any_ticks(), Instant::now());
        std::thread::sleep(Duration::from_millis(30));
        let (ticks, elapsed) = (any_ticks() - t, i.elapsed());
        let ns = ticks as f64 * ns_per_tick();
        let off = (ns / elapsed.as_nanos() as f64 - 1.0).abs();
        assert!(
            off < 0.01,
            "{ns} ns by the counter, {elapsed:?} by the clock"
        );
    }
}
