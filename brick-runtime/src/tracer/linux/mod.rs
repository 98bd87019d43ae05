//! What Linux offers to look at system calls with.

mod account;
mod gaps;
mod helper;
mod overhead;
mod perf;
mod ptrace;
mod recorder;
mod ring;
mod sys;
mod threads;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use self::account::Known;
use self::threads::Thread;
use crate::figure::Figure;
use crate::tracer::breakdown::{BackendProblem, SyscallBreakdown, TraceBackend};

/// Calls that the cost of observing is measured with, each time: it depends on the load. Of so many
/// batches the median counts: a batch in which somebody else had the processor says nothing of it.
const CALIBRATION: u32 = 8;
const BATCHES: usize = 8;

/// What a tracer observes with.
#[derive(Debug, Default)]
pub(super) struct Observer {
    /// Only this one, if it is set.
    only: Option<TraceBackend>,
    /// Pages of each perf ring.
    ring_pages: Option<NonZeroUsize>,
    /// Backends that did not work at the first try, which is not repeated.
    passed_over: Mutex<Vec<BackendProblem>>,
    /// What makes the next perf session cheap, and when it was last of use.
    keeper: Mutex<Option<(perf::Keeper, Instant)>>,
}

/// How long an unused keeper is kept.
const IDLE: Duration = Duration::from_secs(1);

/// A call while it is observed.
#[derive(Debug)]
pub(super) struct Observation {
    session: Session,
    passed_over: Vec<BackendProblem>,
    /// Nanoseconds of a calibration call, untraced and traced.
    plain_ns: u64,
    traced_ns: u64,
    /// The threads that there were when it began.
    before: BTreeMap<i32, Thread>,
    cpu_ns: u64,
    queue_ns: Option<u64>,
    start: u64,
}

#[derive(Debug)]
enum Session {
    Perf(perf::Session),
    Ptrace(ptrace::Session),
    Cpu,
}

impl Session {
    fn start(
        backend: TraceBackend,
        pages: Option<NonZeroUsize>,
        plain_ns: u64,
    ) -> Result<Session, BackendProblem> {
        match backend {
            TraceBackend::Perf => perf::Session::start(pages, plain_ns).map(Session::Perf),
            TraceBackend::Ptrace => ptrace::Session::start(plain_ns).map(Session::Ptrace),
            TraceBackend::Cpu => Ok(Session::Cpu),
        }
    }

    /// A thread of this process that is the tracer's.
    fn own_thread(&self) -> Option<i32> {
        match self {
            Session::Perf(session) => Some(session.own_thread()),
            Session::Ptrace(_) | Session::Cpu => None,
        }
    }

    fn backend(&self) -> TraceBackend {
        match self {
            Session::Perf(_) => TraceBackend::Perf,
            Session::Ptrace(_) => TraceBackend::Ptrace,
            Session::Cpu => TraceBackend::Cpu,
        }
    }
}

impl Observer {
    pub(super) fn only(&mut self, backend: TraceBackend) {
        self.only = Some(backend);
    }

    pub(super) fn ring_pages(&mut self, pages: NonZeroUsize) {
        self.ring_pages = Some(pages);
    }

    /// Makes perf sessions cheap for a while.
    fn keep(&self) -> Result<(), BackendProblem> {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = match keeper.take() {
            Some((kept, _)) => kept,
            None => perf::Keeper::new()?,
        };
        *keeper = Some((kept, Instant::now()));
        Ok(())
    }

    /// Lets go of what has not been used for a while; in a thread of its own, for it takes long.
    pub(super) fn rest(&self) {
        let mut keeper = self.keeper.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((kept, _)) = keeper.take_if(|(_, used)| used.elapsed() > IDLE) {
            // Where there can be no thread, it is dropped here.
            let _ = std::thread::Builder::new()
                .name("brick-tracer".into())
                .spawn(move || drop(kept));
        }
    }

    /// Starts to observe this process, with the best backend that there is.
    pub(super) fn start(&self) -> Result<Observation, BackendProblem> {
        let mut passed_over = self
            .passed_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let plain_ns = calibrate();
        let mut session = None;
        for backend in TraceBackend::ALL {
            if self.only.is_some_and(|only| only != backend)
                || passed_over.iter().any(|problem| problem.backend == backend)
            {
                continue;
            }
            let kept = match backend {
                TraceBackend::Perf => self.keep(),
                _ => Ok(()),
            };
            match kept.and_then(|()| Session::start(backend, self.ring_pages, plain_ns)) {
                Ok(started) => {
                    session = Some(started);
                    break;
                }
                Err(problem) => passed_over.push(problem),
            }
        }
        let Some(session) = session else {
            // Only where one backend was asked for: the last one never fails.
            return Err(passed_over[0].clone());
        };
        let traced_ns = calibrate();
        let before = threads::all(session.own_thread());
        let queue_ns = threads::own_queue_ns();
        let cpu_ns = sys::thread_cpu_ns();
        let start = match &session {
            Session::Perf(session) => session.begin(),
            Session::Ptrace(session) => session.begin(),
            Session::Cpu => sys::now_ns(),
        };
        Ok(Observation {
            session,
            passed_over: passed_over.clone(),
            plain_ns,
            traced_ns,
            before,
            cpu_ns,
            queue_ns,
            start,
        })
    }
}

/// Nanoseconds of a system call that does next to nothing.
fn calibrate() -> u64 {
    let mut batches = [0; BATCHES];
    for ns in &mut batches {
        let start = sys::now_ns();
        for _ in 0..CALIBRATION {
            sys::getppid();
        }
        *ns = sys::now_ns().saturating_sub(start) / u64::from(CALIBRATION);
    }
    batches.sort_unstable();
    batches[BATCHES / 2]
}

impl Observation {
    /// Nanoseconds that observing adds to a system call, by the calibration of this observation.
    pub(super) fn added_ns(&self) -> Figure {
        match self.session {
            Session::Cpu => Figure::unavailable("no system call is observed"),
            _ => Figure::Derived {
                value: self.traced_ns as f64 - self.plain_ns as f64,
                from: "a cheap system call, observed − unobserved",
            },
        }
    }

    /// The call is over: where its time went.
    pub(super) fn end(self) -> SyscallBreakdown {
        let wall_ns = sys::now_ns().saturating_sub(self.start) as f64;
        let backend = self.session.backend();
        let own = self.session.own_thread();
        let recording = match self.session {
            Session::Perf(session) => Ok(session.end()),
            Session::Ptrace(session) => session.end().ok_or("the helper process was killed"),
            Session::Cpu => Err("the backend `cpu` sees no system calls"),
        };
        let cpu_ns = sys::thread_cpu_ns().saturating_sub(self.cpu_ns) as f64;
        let queue_ns = threads::own_queue_ns().zip(self.queue_ns);
        let known = Known {
            backend,
            caller: sys::gettid(),
            wall_ns,
            cpu_ns,
            queue_ns: queue_ns.map(|(after, before)| after.saturating_sub(before) as f64),
            now: threads::all(own),
            before: self.before,
            passed_over: self.passed_over,
        };
        match recording {
            Ok(recording) => known.with(&recording),
            Err(why) => {
                let partial = (backend == TraceBackend::Ptrace).then(|| why.to_owned());
                known.without(why, partial)
            }
        }
    }
}
