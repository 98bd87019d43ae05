//! Who writes where, while a recording runs.
//!
//! Each thread has a log of its own behind a lock that nobody else takes for longer than it takes to
//! carry off a list of chunks: 10 ns, where a call that is recorded takes 100. All of this is off the
//! fast path.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::assemble::Stopped;
use super::log::{Closed, EventId, Log, Raw, Room};
use super::scale::Scale;
use super::{EventKind, Failure, Limits, RecordingError, Thread, Timeline, Work};
use crate::clock;
use crate::contract::{Fault, Violation};
use crate::hook::mode;
use crate::scope::{current_layer, current_position};

/// What the threads of one recording share.
#[derive(Debug)]
struct Session {
    generation: u64,
    room: Room,
    logs: Mutex<Vec<Arc<Mutex<Log>>>>,
}

/// The recording in progress.
static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);
/// Its number, so that a thread sees that its log is of an older one.
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Somebody holds a [`Live`].
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Events that found no log to be dropped in.
static LOST: AtomicU64 = AtomicU64::new(0);

/// A thread's log, and the recording that it is of.
struct Local {
    session: Arc<Session>,
    log: Arc<Mutex<Log>>,
    /// The log's place in the session's.
    number: usize,
}

thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
    /// This thread is writing an event: an allocator that is a brick itself would come back here.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `write` with this thread's log; `None` where there is none to write to.
fn with_log<R>(write: impl FnOnce(&mut Log, &Local) -> R) -> Option<R> {
    if INSIDE.replace(true) {
        LOST.fetch_add(1, Relaxed);
        return None;
    }
    let written = LOCAL.try_with(|local| {
        let mut local = local.borrow_mut();
        let generation = GENERATION.load(Relaxed);
        if local
            .as_ref()
            .is_none_or(|l| l.session.generation != generation)
        {
            *local = join();
        }
        let local = local.as_ref()?;
        Some(write(&mut lock(&local.log), local))
    });
    INSIDE.set(false);
    written.unwrap_or_else(|_| {
        LOST.fetch_add(1, Relaxed);
        None
    })
}

/// A log in the recording in progress.
#[cold]
fn join() -> Option<Local> {
    let session = lock(&SESSION).clone()?;
    let log = Arc::new(Mutex::new(Log::new(this_thread())));
    let number = {
        let mut logs = lock(&session.logs);
        logs.push(Arc::clone(&log));
        logs.len() - 1
    };
    Some(Local {
        session,
        log,
        number,
    })
}

fn this_thread() -> Thread {
    Thread {
        name: std::thread::current().name().map(str::to_owned),
        os_id: os_thread_id(),
    }
}

/// `/proc/thread-self` points to `PID/task/TID`.
#[cfg(all(target_os = "linux", not(miri)))]
fn os_thread_id() -> Option<u64> {
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn os_thread_id() -> Option<u64> {
    None
}

/// Where the thread stands: what an event is told of it.
fn here() -> (Option<u64>, Option<u64>) {
    (current_layer(), current_position())
}

/// Writes down that something begins: the tick at which it does, the last thing that is read.
fn begin(kind: EventKind, call: Option<u64>) -> u64 {
    let raw = Raw {
        call,
        ..Raw::new(kind, here())
    };
    let start = with_log(|log, local| begin_in(log, local, raw));
    start.flatten().unwrap_or_else(clock::any_ticks)
}

fn begin_in(log: &mut Log, local: &Local, raw: Raw) -> Option<u64> {
    let event = log.begin(&local.session.room, raw)?;
    event.start = clock::any_ticks();
    Some(event.start)
}

/// What is open on a thread, for those who do its work elsewhere.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    generation: u64,
    event: EventId,
    layer: Option<u64>,
    position: Option<u64>,
}

/// What is open on this thread; `None` where nothing is, or it found no room.
#[cold]
pub(super) fn origin() -> Option<Origin> {
    let (layer, position) = here();
    with_log(|log, local| {
        let open = log.innermost()?;
        Some(Origin {
            generation: local.session.generation,
            event: EventId {
                log: local.number,
                index: open.index,
            },
            // A task hands part of its work on: it knows where it stands, its thread does not.
            layer: layer.or(open.layer),
            position: position.or(open.position),
        })
    })
    .flatten()
}

/// Work of `origin` begins here: when. `None` where it is the origin's own thread, in the middle of
/// the event that handed the work over, or where the recording is another one by now.
#[cold]
pub(super) fn begin_task(origin: Origin, name: &'static str) -> Option<u64> {
    let raw = Raw {
        launched_by: Some(origin.event),
        ..Raw::new(EventKind::Span(name), (origin.layer, origin.position))
    };
    with_log(|log, local| {
        let inside = log.innermost().map(|open| open.index) == Some(origin.event.index)
            && local.number == origin.event.log;
        if inside || local.session.generation != origin.generation {
            return None;
        }
        begin_in(log, local, raw)
    })
    .flatten()
}

/// A call begins, or a poll of the async call of that number.
#[cold]
pub(crate) fn begin_call(info: &'static crate::BrickInfo, call: Option<u64>) -> u64 {
    match call {
        None => begin(EventKind::Brick(info), None),
        Some(_) => begin(EventKind::Poll(info), call),
    }
}

/// The call or poll that began at the tick `start` ended at `now`.
#[cold]
pub(crate) fn end_call(start: u64, now: u64, panicked: bool, work: Work) {
    with_log(|log, _| {
        let call = |raw: &Raw| {
            raw.start == start && matches!(raw.kind, EventKind::Brick(_) | EventKind::Poll(_))
        };
        log.conclude((start, now), panicked, call, work);
    });
}

/// A scope, or a check, begins.
#[cold]
pub(crate) fn begin_scope(kind: EventKind) -> u64 {
    begin(kind, None)
}

/// The scope or check that began at the tick `start` ends: when it did.
#[cold]
pub(crate) fn end_scope(start: u64) -> u64 {
    let now = clock::any_ticks();
    with_log(|log, _| {
        let scope = |raw: &Raw| {
            raw.start == start && !matches!(raw.kind, EventKind::Brick(_) | EventKind::Poll(_))
        };
        let panicked = std::thread::panicking();
        log.conclude((start, now), panicked, scope, Work::default());
    });
    now
}

/// The innermost open scope of this kind ends.
#[cold]
pub(crate) fn end_innermost(kind: EventKind) {
    let now = clock::any_ticks();
    with_log(|log, _| {
        let (panicked, scope) = (std::thread::panicking(), |raw: &Raw| raw.kind == kind);
        log.conclude((0, now), panicked, scope, Work::default());
    });
}

/// What is open on this thread failed.
#[cold]
pub(super) fn fail(failure: Failure) {
    let failure = Arc::new(failure);
    with_log(|log, _| log.fail(&failure));
}

/// A call on this thread broke its contract, or was called against it.
#[cold]
pub(crate) fn violated(violation: &Violation) {
    let ended = !matches!(violation.fault, Fault::Requires { .. });
    let failure = Arc::new(Failure {
        message: violation.to_string(),
        brick: Some(violation.brick),
    });
    with_log(|log, _| log.violated(failure, ended));
}

/// The profiler folded its log between these ticks.
#[cold]
pub(crate) fn folded(start: u64, end: u64) {
    let raw = Raw {
        start,
        end: Some(end),
        ..Raw::new(EventKind::Fold, here())
    };
    with_log(|log, local| log.complete(&local.session.room, raw));
}

/// A number for an async call.
#[cold]
pub(crate) fn number_call() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// The clock and the wall clock at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    pub(crate) tick: u64,
    pub(crate) unix_ns: u64,
}

impl Anchor {
    /// The best of a few tries: the one in which reading took the shortest.
    fn now() -> Anchor {
        let tries = (0..8).map(|_| {
            let before = clock::any_ticks();
            let wall = SystemTime::now();
            let took = clock::any_ticks().saturating_sub(before);
            (took, before + took / 2, wall)
        });
        let (_, tick, wall) = tries.min_by_key(|&(took, ..)| took).expect("eight tries");
        let since = wall.duration_since(SystemTime::UNIX_EPOCH);
        Anchor {
            tick,
            unix_ns: u64::try_from(since.unwrap_or(Duration::ZERO).as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

/// The recording in progress, and the right to stop it.
#[derive(Debug)]
pub(crate) struct Live {
    session: Arc<Session>,
    anchor: Anchor,
    ns_per_event: f64,
}

/// What has ended in the log of that number.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) log: usize,
    /// Its thread, as the system numbers it.
    pub(crate) os_id: Option<u64>,
    pub(crate) events: Vec<Vec<Raw>>,
    /// When the first ended that has ended and stays for now.
    pub(crate) stays: Option<u64>,
}

impl Live {
    pub(super) fn start(limits: Limits) -> Result<Live, RecordingError> {
        if TAKEN.swap(true, Relaxed) {
            return Err(RecordingError::Busy);
        }
        if !mode::enabled() {
            TAKEN.store(false, Relaxed);
            return Err(RecordingError::Disabled);
        }
        let ns_per_event = ns_per_event();
        let anchor = Anchor::now();
        Ok(Live {
            session: open(limits),
            anchor,
            ns_per_event,
        })
    }

    /// Takes out of the logs what has ended since it was last asked. What is done with it is to be told
    /// to [`room`](Live::room).
    pub(crate) fn take_ended(&self) -> Vec<Ended> {
        let logs = lock(&self.session.logs).clone();
        let ended = logs.iter().enumerate().map(|(number, log)| {
            let mut log = lock(log);
            let (events, stays) = log.take_ended();
            Ended {
                log: number,
                os_id: log.thread.os_id,
                events,
                stays,
            }
        });
        ended.collect()
    }

    /// Where memory that is free again is given back to.
    pub(crate) fn room(&self) -> &Room {
        &self.session.room
    }

    /// When it started.
    pub(crate) fn anchor(&self) -> Anchor {
        self.anchor
    }

    pub(crate) fn ns_per_event(&self) -> f64 {
        self.ns_per_event
    }

    /// Nanoseconds from the start, from now on.
    pub(crate) fn scale(&self) -> Scale {
        Scale::from(self.anchor.tick)
    }

    /// Stops.
    pub(crate) fn close(self) -> Stopped {
        let (logs, lost) = close();
        Stopped {
            logs,
            lost,
            anchor: self.anchor,
            stop: clock::any_ticks(),
            ns_per_event: self.ns_per_event,
        }
    }

    pub(super) fn stop(self) -> Timeline {
        let start = self.anchor.tick;
        let stopped = self.close();
        // The rate over all the time until now.
        stopped.assemble(&Scale::from(start)).0
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        close();
        TAKEN.store(false, Relaxed);
    }
}

/// Starts writing.
fn open(limits: Limits) -> Arc<Session> {
    let generation = GENERATION.load(Relaxed) + 1;
    LOST.store(0, Relaxed);
    let session = Arc::new(Session {
        generation,
        room: Room::new(limits.events),
        logs: Mutex::default(),
    });
    *lock(&SESSION) = Some(Arc::clone(&session));
    GENERATION.store(generation, Relaxed);
    mode::set_recording(true);
    session
}

/// Stops writing: what was written, and how many events found no log.
fn close() -> (Vec<Closed>, u64) {
    mode::set_recording(false);
    let Some(session) = lock(&SESSION).take() else {
        return (Vec::new(), 0);
    };
    let logs = lock(&session.logs);
    let logs = logs.iter().map(|log| lock(log).close()).collect();
    (logs, LOST.load(Relaxed))
}

/// What a recorded call costs, measured once on empty calls, before the first recording.
pub(crate) fn ns_per_event() -> f64 {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    *MEASURED.get_or_init(|| {
        // Before anything closes the fast path: what a hook costs without a recording.
        crate::profiler::ns_per_hook();
        const ROUNDS: usize = if cfg!(miri) { 1 } else { 16 };
        const CALLS: u32 = if cfg!(miri) { 16 } else { 512 };
        (0..ROUNDS)
            .map(|_| {
                open(Limits { events: 1024 });
                crate::profiler::call_calibration(1);
                let begin = Instant::now();
                crate::profiler::call_calibration(CALLS);
                let took = begin.elapsed().as_nanos() as f64 / f64::from(CALLS);
                close();
                took
            })
            .fold(f64::INFINITY, f64::min)
    })
}
