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
    /// Nanoseconds that starting and stopping takes, outside the brick's time.
    pub session_ns: Figure,
}

/// Every backend, best first, each tried here and now on a call that does nothing.
#[must_use]
pub fn backends() -> Vec<BackendStatus> {
    TraceBackend::ALL.into_iter().map(probe).collect()
}

fn probe(backend: TraceBackend) -> BackendStatus {
    let mut observer = Observer::default();
    observer.only(backend);
    let begin = Instant::now();
    match observer.start() {
        Ok(observation) => {
            let added_ns = observation.added_ns();
            observation.end();
            BackendStatus {
                backend,
                problem: None,
                added_ns,
                session_ns: Figure::Measured(begin.elapsed().as_nanos() as f64),
            }
        }
        Err(problem) => BackendStatus {
            backend,
            problem: Some(BackendProblem { backend, ..problem }),
            added_ns: Figure::unavailable("the backend does not work here"),
            session_ns: Figure::unavailable("the backend does not work here"),
        },
    }
}
