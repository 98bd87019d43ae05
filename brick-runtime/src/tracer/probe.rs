//! Which backends there are on this machine, found out by using them.

use std::time::Instant;

use super::breakdown::{BackendProblem, TraceBackend};
use super::observer::Observer;
use crate::figure::Figure;

/// Whether a backend works here, and what it costs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BackendStatus {
    /// Which.
    pub backend: TraceBackend,
    /// Why it does not work; `None` if it does.
    pub problem: Option<BackendProblem>,
    /// Nanoseconds that it adds to a system call of the traced brick.
    pub added_ns: Figure,
    /// Nanoseconds that starting and stopping takes, outside the brick's time. The first time in a
    /// second takes perf some 60 ms more.
    pub session_ns: Figure,
}

/// Every backend, best first, each tried here and now on a call that does nothing.
#[must_use]
pub fn backends() -> Vec<BackendStatus> {
    TraceBackend::ALL.into_iter().map(probe).collect()
}

/// Tries of which the cheapest counts: the others were interrupted. The first also pays for what
/// perf keeps open for a while.
const TRIES: usize = 5;

fn probe(backend: TraceBackend) -> BackendStatus {
    let mut observer = Observer::default();
    observer.only(backend);
    let cheaper = |best: (Figure, f64), _| {
        let next = attempt(&observer)?;
        Ok(if next.1 < best.1 { next } else { best })
    };
    match attempt(&observer).and_then(|first| (1..TRIES).try_fold(first, cheaper)) {
        Ok((added_ns, session_ns)) => BackendStatus {
            backend,
            problem: None,
            added_ns,
            session_ns: Figure::Measured(session_ns),
        },
        Err(problem) => BackendStatus {
            backend,
            problem: Some(BackendProblem { backend, ..problem }),
            added_ns: Figure::unavailable("the backend does not work here"),
            session_ns: Figure::unavailable("the backend does not work here"),
        },
    }
}

/// What a system call takes longer, and what one session takes, in nanoseconds.
fn attempt(observer: &Observer) -> Result<(Figure, f64), BackendProblem> {
    let begin = Instant::now();
    let observation = observer.start()?;
    let added_ns = observation.added_ns();
    observation.end();
    Ok((added_ns, begin.elapsed().as_nanos() as f64))
}
