//! When, into how many parts, and by whom a kernel's work is done.
//!
//! The [`Team`] that is installed on the thread does it, or rayon's pool where there is none. The pool is
//! the caller's: what `ThreadPool::install` made current, else the global one. A program that calls
//! kernel after kernel on it does so from inside: from outside, each call that goes parallel hands
//! itself to a worker and waits. (Measured on two threads, a team's time over the pool's: one token 0.95, 6
//! tokens 0.74 to 0.91, 128 tokens 0.95, 512 the same.)
//! Parts are whole outputs that no other part contributes to, so results don't depend on them.

mod split;
mod team;

use std::sync::{Mutex, PoisonError};

use brick_runtime::Barrier;
use brick_runtime::timeline::handover;
use rayon::prelude::*;

pub(crate) use self::split::{cut, ranges};
pub use self::team::Team;

/// Arithmetic that is worth a part for rayon: some ten microseconds, against the one or two that waking
/// a thread takes.
const POOL_FLOPS: usize = 200_000;

/// Arithmetic that is worth a part for a team, whose threads are awake: a few microseconds.
const TEAM_FLOPS: usize = 150_000;

/// Parts for each thread at most, so that a thread that was late leaves work to the others.
const PARTS_PER_THREAD: usize = 4;

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crew {
    /// The calling thread.
    Alone,
    /// The team that is installed on it.
    Team,
    /// Rayon's current pool.
    Pool,
}

/// How a kernel's work is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    crew: Crew,
    threads: usize,
    n_parts: usize,
}

impl Plan {
    /// For `n_outputs` that cost `flops` each.
    pub(crate) fn new(n_outputs: usize, flops: usize) -> Plan {
        let (crew, threads, worth) = match team::threads() {
            Some(threads) => (Crew::Team, threads, TEAM_FLOPS),
            None => (Crew::Pool, rayon::current_num_threads(), POOL_FLOPS),
        };
        let worthwhile = n_outputs.saturating_mul(flops) / worth;
        // As many for each thread, where there is something for each.
        let per_thread = (worthwhile / threads).clamp(1, PARTS_PER_THREAD);
        let n_parts = worthwhile.min(per_thread * threads).min(n_outputs);
        if threads == 1 || n_parts <= 1 {
            return Plan {
                crew: Crew::Alone,
                threads: 1,
                n_parts: 1,
            };
        }
        Plan {
            crew,
            threads,
            n_parts,
        }
    }

    /// Into how many parts the work is best split: 1 if one thread had better do all of it.
    pub(crate) fn n_parts(&self) -> usize {
        self.n_parts
    }

    /// Does `work` for each of `parts`, which may be more or fewer than [`n_parts`](Self::n_parts); every
    /// thread makes itself what it needs for it with `init`. In timelines, what another thread does is a
    /// span called `name`.
    pub(crate) fn run<P: Send, S>(
        &self,
        name: &'static str,
        parts: impl Iterator<Item = P>,
        init: impl Fn() -> S + Sync + Send,
        work: impl Fn(&mut S, P) + Sync + Send,
    ) {
        match self.crew {
            Crew::Alone => {
                let mut state = init();
                parts.for_each(|part| work(&mut state, part));
            }
            Crew::Team => {
                let origin = handover();
                let barrier = Barrier::fork(self.threads);
                let parts: Vec<_> = parts.map(|part| Mutex::new(Some(part))).collect();
                team::run(parts.len(), &|claims| {
                    let (_task, _working) = (origin.task(name), barrier.work());
                    let mut state = init();
                    for claim in claims {
                        let mut part = parts[claim].lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some(part) = part.take() {
                            work(&mut state, part);
                        }
                    }
                });
            }
            Crew::Pool => {
                let origin = handover();
                let barrier = Barrier::fork(self.threads);
                let parts: Vec<_> = parts.collect();
                parts.into_par_iter().for_each_init(
                    || (origin.task(name), init()),
                    |(_task, state), part| {
                        let _working = barrier.work();
                        work(state, part);
                    },
                );
            }
        }
    }
}
