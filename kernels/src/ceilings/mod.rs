//! What this machine can do at most, measured on it: the roofs of a roofline (Williams, Waterman and
//! Patterson, 2009).
//!
//! Four loops that do one thing only: read a buffer that no cache holds, read one that a core's own
//! cache holds, multiply and add `f32` in registers, and multiply and add bytes as integer dot products do.
//! Each runs on one thread and on all of rayon's current pool, in turns, several times: what else the
//! machine does meanwhile hits all of them, and shows in the [`Spread`].
//!
//! ```no_run
//! use brick_kernels::ceilings::{MachineCeilings, Plan};
//!
//! let machine = MachineCeilings::measure(&Plan::for_this_machine(), |_repeat| ())?;
//! println!("{:.1} GB/s", machine.all.memory_read.best / 1e9);
//! # Ok::<(), brick_kernels::ceilings::CeilingsError>(())
//! ```

mod buffer;
mod spread;

use std::cell::Cell;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use brick_runtime::graph::Ceilings;

use self::buffer::{Buffer, last_level_cache};
pub use self::spread::Spread;
use crate::arch::Isa;
use crate::arch::peak::{ByteDot, DOT_BYTES};

/// Why nothing was measured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CeilingsError {
    /// The buffer to read does not fit into memory.
    #[error("no memory for a buffer of {bytes} bytes to read")]
    Memory {
        /// Its size.
        bytes: usize,
    },
}

/// How to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Bytes that are read from memory, by all threads together: more than the last cache holds.
    pub memory_bytes: usize,
    /// Bytes that each thread reads from its cache.
    pub cache_bytes: usize,
    /// How long one repeat of one loop takes at least.
    pub least: Duration,
    /// How often each loop is measured.
    pub repeats: NonZeroUsize,
}

impl Plan {
    /// A buffer of twice the last-level cache, within 256 MiB and 1 GiB (256 MiB where the cache's size
    /// is not known), 256 KiB for each thread, 51 repeats of 1 ms: a second in all. They are short, so that
    /// on a machine that does other things too, most of them are not interrupted.
    #[must_use]
    pub fn for_this_machine() -> Plan {
        let twice = last_level_cache().unwrap_or(0).saturating_mul(2);
        Plan {
            memory_bytes: twice.clamp(256 << 20, 1 << 30),
            cache_bytes: 256 << 10,
            least: Duration::from_millis(1),
            repeats: const { NonZeroUsize::new(51).unwrap() },
        }
    }
}

/// The roofs of one number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Roofs {
    /// How many threads.
    pub threads: usize,
    /// Bytes a second, read from memory.
    pub memory_read: Spread,
    /// Bytes a second, read from the cores' caches.
    pub cache_read: Spread,
    /// `f32` operations a second in registers; a multiply-add is two.
    pub multiply_add: Spread,
    /// Operations on bytes a second, as integer dot products make them; a multiplication and an addition
    /// are two. `None` where the CPU has no instruction for it that is known here.
    pub byte_dot: Option<Spread>,
}

impl Roofs {
    /// For a roofline of kernels in `f32`. A roof is what can be reached at most, so it is the best repeat,
    /// as STREAM's: what else the machine did lowers the others, and with it the kernels under the roof.
    #[must_use]
    pub fn ceilings(&self) -> Ceilings {
        Ceilings {
            flops_per_s: self.multiply_add.best,
            bytes_per_s: self.memory_read.best,
            cache_bytes_per_s: Some(self.cache_read.best),
        }
    }
}

/// What this machine can do.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineCeilings {
    /// On one thread.
    pub one: Roofs,
    /// On all threads of rayon's current pool at once.
    pub all: Roofs,
    /// The instructions that `f32` was multiplied with.
    pub f32_instructions: &'static str,
    /// The instructions that bytes were multiplied with.
    pub byte_instructions: Option<&'static str>,
    /// Bytes that were read from memory, again and again.
    pub memory_bytes: usize,
    /// Bytes that each thread read from its cache.
    pub cache_bytes: usize,
    /// The last-level cache, if its size is known: reads of a buffer that is not larger are not all
    /// from memory.
    pub last_level_cache: Option<usize>,
}

impl MachineCeilings {
    /// Measures on this thread and on rayon's current pool; calls `repeated` after each repeat with its
    /// number.
    ///
    /// # Errors
    /// If there is no memory for the buffer.
    pub fn measure(
        plan: &Plan,
        mut repeated: impl FnMut(usize),
    ) -> Result<MachineCeilings, CeilingsError> {
        let threads = rayon::current_num_threads();
        let memory = Buffer::new(plan.memory_bytes, threads)?;
        let cache = Buffer::new(plan.cache_bytes.saturating_mul(threads), threads)?;
        let (isa, dot) = (Isa::detect(), ByteDot::available().pop());
        let next = Cell::new(0);
        let loops = |all: bool| {
            let mut loops = vec![
                Loop::reading(&memory, &next, all),
                // One thread has its own part in its cache, not all of it.
                Loop::reading_own(&cache, all),
                Loop::multiplying(isa, all),
            ];
            loops.extend(dot.map(|dot| Loop::of_bytes(dot, all)));
            loops
        };
        let mut one = loops(false);
        let mut all = if threads > 1 { loops(true) } else { Vec::new() };
        for repeat in 1..=plan.repeats.get() {
            for each in one.iter_mut().chain(&mut all) {
                each.measure(plan.least);
            }
            repeated(repeat);
        }
        let one = roofs(1, one);
        let all = match threads {
            1 => one.clone(),
            _ => roofs(threads, all),
        };
        Ok(MachineCeilings {
            one,
            all,
            f32_instructions: isa.name(),
            byte_instructions: dot.map(ByteDot::name),
            memory_bytes: memory.bytes(),
            cache_bytes: cache.bytes() / threads,
            last_level_cache: last_level_cache(),
        })
    }
}

fn roofs(threads: usize, loops: Vec<Loop<'_>>) -> Roofs {
    let mut spreads = loops.into_iter().map(|each| Spread::of(each.rates));
    let mut next = || spreads.next().expect("one of each loop");
    Roofs {
        threads,
        memory_read: next(),
        cache_read: next(),
        multiply_add: next(),
        byte_dot: spreads.next(),
    }
}

/// One thing to do again and again.
struct Loop<'a> {
    /// How much one call does, on all of its threads together.
    work: f64,
    /// Calls in one repeat.
    calls: u32,
    call: Box<dyn Fn(u32) + 'a>,
    /// Work per second, by repeat.
    rates: Vec<f64>,
}

impl<'a> Loop<'a> {
    fn new(work: f64, call: impl Fn(u32) + 'a) -> Loop<'a> {
        Loop {
            work,
            calls: 1,
            call: Box::new(call),
            rates: Vec::new(),
        }
    }

    /// A piece in each call: until `next`, which all who read the buffer share, comes to it again, the
    /// others have driven it out of the cache.
    fn reading(buffer: &'a Buffer, next: &'a Cell<usize>, all: bool) -> Loop<'a> {
        const PIECES: usize = 32;
        Loop::new(buffer.bytes_of_a_piece(PIECES) as f64, move |calls| {
            for _ in 0..calls {
                let piece = (next.get(), PIECES);
                next.set((next.get() + 1) % PIECES);
                black_box(match all {
                    true => buffer.sum_on_all(piece),
                    false => buffer.sum_on_one(piece),
                });
            }
        })
    }

    /// Each thread its own part, which stays in its cache.
    fn reading_own(buffer: &'a Buffer, all: bool) -> Loop<'a> {
        let bytes = if all {
            buffer.bytes()
        } else {
            buffer.bytes_of(0)
        };
        Loop::new(bytes as f64, move |calls| {
            run(all, |thread| {
                for _ in 0..calls {
                    black_box(buffer.sum_of(thread));
                }
            });
        })
    }

    fn multiplying(isa: Isa, all: bool) -> Loop<'a> {
        /// Below 2^20, so that sums of ones are exact.
        const ITERATIONS: usize = 4096;
        let flops = 2 * isa.lanes() * ITERATIONS * threads(all);
        Loop::new(flops as f64, move |calls| {
            run(all, |_| {
                for _ in 0..calls {
                    black_box(isa.multiply_adds(ITERATIONS, black_box(1.0), black_box(1.0)));
                }
            });
        })
    }

    fn of_bytes(dot: ByteDot, all: bool) -> Loop<'a> {
        const ROUNDS: usize = 16;
        let operations = 2 * DOT_BYTES * ROUNDS * threads(all);
        Loop::new(operations as f64, move |calls| {
            run(all, |_| {
                let bytes = [1; DOT_BYTES];
                for _ in 0..calls {
                    black_box(dot.dot(ROUNDS, black_box(1), &bytes));
                }
            });
        })
    }

    /// One repeat; it is made longer, for good, where it takes less than `least`.
    fn measure(&mut self, least: Duration) {
        loop {
            let clock = Instant::now();
            (self.call)(self.calls);
            let took = clock.elapsed();
            if took >= least && !took.is_zero() || self.calls == u32::MAX {
                let work = self.work * f64::from(self.calls);
                self.rates.push(work / took.as_secs_f64());
                return;
            }
            self.calls = self.calls.saturating_mul(2);
        }
    }
}

/// Runs `work` on all threads of the pool at once, or on this one; it is told which.
fn run(all: bool, work: impl Fn(usize) + Sync) {
    match all {
        true => drop(rayon::broadcast(|context| work(context.index()))),
        false => work(0),
    }
}

fn threads(all: bool) -> usize {
    if all { rayon::current_num_threads() } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No number is asserted: whatever the machine, each loop has done something in some time.
    #[test]
    #[cfg_attr(miri, ignore = "rayon's deque does what Miri refuses")]
    fn every_roof_is_measured_as_often_as_asked() {
        let plan = Plan {
            memory_bytes: 3 << 18,
            cache_bytes: 1 << 12,
            least: Duration::from_micros(50),
            repeats: NonZeroUsize::new(4).unwrap(),
        };
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let mut repeats = Vec::new();
            let machine = pool.install(|| MachineCeilings::measure(&plan, |n| repeats.push(n)));
            let machine = machine.unwrap();
            assert_eq!(repeats, [1, 2, 3, 4]);
            assert_eq!((machine.one.threads, machine.all.threads), (1, threads));
            assert_eq!(machine.memory_bytes, 3 << 18);
            assert_eq!(machine.cache_bytes, 1 << 12);
            for roofs in [&machine.one, &machine.all] {
                let known = [roofs.memory_read, roofs.cache_read, roofs.multiply_add];
                for spread in known.into_iter().chain(roofs.byte_dot) {
                    assert_eq!(spread.repeats, 4);
                    assert!(spread.median > 0.0 && spread.median.is_finite());
                    assert!(spread.low <= spread.median && spread.median <= spread.high);
                }
            }
            assert_eq!(
                machine.one.byte_dot.is_some(),
                machine.byte_instructions.is_some()
            );
        }
    }
}
