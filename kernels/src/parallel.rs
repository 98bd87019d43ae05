//! When, and into how large pieces, work is handed to rayon's pool.
//!
//! The pool is the caller's: what `ThreadPool::install` made current, else the global one. A
//! program that calls kernel after kernel does so from inside the pool: from outside, each call
//! that goes parallel hands itself to a worker and waits.
//! Pieces are whole outputs that no other piece contributes to, so results don't depend on them.

/// Arithmetic that is worth a task: some ten microseconds, against the one or two that waking a
/// thread takes.
const FLOPS_PER_TASK: usize = 200_000;

/// Tasks for each thread, so that a thread that was late leaves work to the others.
const TASKS_PER_THREAD: usize = 4;

/// Outputs in one task, of `n_outputs` that cost `flops` each; `n_outputs` if one thread had
/// better do all of it.
pub(crate) fn outputs_per_task(n_outputs: usize, flops: usize) -> usize {
    let threads = rayon::current_num_threads();
    if threads == 1 {
        return n_outputs;
    }
    let enough = FLOPS_PER_TASK.div_ceil(flops.max(1));
    let fair = n_outputs.div_ceil(threads * TASKS_PER_THREAD);
    enough.max(fair).min(n_outputs)
}
