//! perf's system call tracepoints on every thread of the process, timed by the kernel.
//!
//! Each thread has two events on each processor, which the threads that it starts inherit; all events
//! of a processor share one ring. A thread of the tracer's own empties the rings while the brick
//! runs, into sums. What was lost is the difference between what the events counted and what was
//! read. Where events cannot be inherited (old kernels, few descriptors), each thread has two events
//! and a ring of its own, and started threads are missing.

mod drain;
mod event;
mod tracepoints;
mod watched;

use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use self::drain::{Drain, Drained, Held, Idle, Losses, Window};
use self::event::{Events, IOC_DISABLE, IOC_ENABLE, Of, refused};
use self::tracepoints::tracepoints;
use self::watched::{Plan, Watched};
use super::recorder::{Recorder, Recording};
use super::ring::Tracepoints;
use super::{sys, threads};
use crate::tracer::breakdown::BackendProblem;

/// An event of each tracepoint that stays open between sessions.
///
/// When a tracepoint's last event is closed, the kernel waits for all processors to have left it:
/// some 60 ms, which would be the price of each session. While this is open, every system call on
/// the machine takes the kernel's slower path, so it is not kept for longer than needed.
#[derive(Debug)]
pub(super) struct Keeper {
    _events: [OwnedFd; 2],
}

impl Keeper {
    /// Both are switched off: they never count anything.
    pub(super) fn new() -> Result<Keeper, BackendProblem> {
        let Tracepoints { enter, exit } = tracepoints()?;
        let own = Of::Thread(sys::gettid());
        let open = |id| event::event(own, id, 1, 0).map_err(|error| refused(&error));
        Ok(Keeper {
            _events: [open(enter)?, open(exit)?],
        })
    }
}

/// What is running.
#[derive(Debug)]
pub(super) struct Session {
    events: Vec<Events>,
    not_followed: Option<String>,
    /// The calls that threads were in before the window opened.
    was_in: Vec<(i32, i64)>,
    window: Arc<Window>,
    stop: Arc<OwnedFd>,
    /// The tracer's own thread.
    own: i32,
    /// Taken when the session stops.
    drain: Option<JoinHandle<Option<Drained>>>,
}

impl Session {
    /// Watches every thread that this process has, with rings of `pages` or as many as allowed. A
    /// calibration call takes `plain_ns` when nobody observes.
    pub(super) fn start(
        pages: Option<NonZeroUsize>,
        plain_ns: u64,
    ) -> Result<Session, BackendProblem> {
        let ids = tracepoints()?;
        let stop = Arc::new(sys::eventfd().map_err(|error| refused(&error))?);
        let idle = Idle::spawn().map_err(|error| refused(&error))?;
        let plan = Plan {
            ids,
            caller: sys::gettid(),
            except: idle.tid,
            pages,
        };
        match plan.watch() {
            Ok(watched) => Session::drained(plan, watched, stop, idle, plain_ns),
            Err(error) => {
                idle.dismiss();
                Err(refused(&error))
            }
        }
    }

    fn drained(
        plan: Plan,
        watched: Watched,
        stop: Arc<OwnedFd>,
        idle: Idle,
        plain_ns: u64,
    ) -> Result<Session, BackendProblem> {
        let window = Arc::new(Window {
            start: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
        });
        let Watched {
            events,
            rings,
            owners,
            not_followed,
        } = watched;
        let own = events.iter().flat_map(|e| [&e.enter, &e.exit]);
        let mut own: Vec<RawFd> = own.map(AsRawFd::as_raw_fd).collect();
        own.push(stop.as_raw_fd());
        let owners = owners.iter().map(|&owner| events[owner].enter.as_raw_fd());
        let drain = Drain {
            rings,
            fds: owners.collect(),
            tracepoints: plan.ids,
            recorder: Recorder::new(plan.caller, own, plain_ns),
            window: Arc::clone(&window),
            stop: Arc::clone(&stop),
            losses: Losses::default(),
            held: Held::default(),
        };
        let mut session = Session {
            events,
            not_followed,
            was_in: Vec::new(),
            window,
            stop,
            own: plan.except,
            drain: Some(idle.start(drain)),
        };
        session.enable(plan.caller)?;
        Ok(session)
    }

    /// The caller's events last: all others see the whole window, and what is done here is not seen.
    fn enable(&mut self, caller: i32) -> Result<(), BackendProblem> {
        let (callers, others) = self
            .events
            .iter()
            .partition::<Vec<_>, _>(|events| events.of.tid() == caller);
        let enable = |events: Vec<&Events>| -> Result<(), BackendProblem> {
            let mut all = events.into_iter();
            all.try_for_each(|events| events.switch(IOC_ENABLE))
                .map_err(|error| refused(&error))
        };
        enable(others)?;
        // Whoever comes out of its call from here on makes an event, and who does not, makes none.
        self.was_in = threads::in_calls(std::process::id());
        let own = self.own;
        self.was_in.retain(|&(tid, _)| tid != caller && tid != own);
        enable(callers)
    }

    /// The thread that is the tracer's, not the program's.
    pub(super) fn own_thread(&self) -> i32 {
        self.own
    }

    /// From here on it counts.
    pub(super) fn begin(&self) -> u64 {
        let now = sys::now_ns();
        self.window.start.store(now, Relaxed);
        now
    }

    /// Up to here it counted: everything that was seen.
    pub(super) fn end(mut self) -> Recording {
        self.window.end.store(sys::now_ns(), Relaxed);
        let followed = match self.not_followed {
            None => threads::list(std::process::id()),
            Some(_) => Vec::new(),
        };
        let Some((mut recorder, losses)) = self.stop() else {
            return Recording {
                lost: u64::MAX,
                ..Recording::default()
            };
        };
        for &(tid, number) in &self.was_in {
            recorder.was_in(tid, number);
        }
        let counted: u64 = self.events.iter().map(Events::counted).sum();
        let mut recording = recorder.finish(&followed);
        recording.lost = counted.saturating_sub(losses.read).max(losses.lost);
        recording.not_followed = self.not_followed.take();
        recording
    }

    /// Switches the events off and waits for the drain to end.
    fn stop(&mut self) -> Option<Drained> {
        let drain = self.drain.take()?;
        for events in &self.events {
            // Fails only for descriptors that are no events.
            let _ = events.switch(IOC_DISABLE);
        }
        let one = 1_u64;
        // SAFETY: eight bytes of `one`, into an eventfd.
        unsafe {
            libc::write(
                self.stop.as_raw_fd(),
                (&raw const one).cast(),
                size_of::<u64>(),
            )
        };
        drain.join().ok()?
    }
}

/// A panic came through the brick.
impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}
