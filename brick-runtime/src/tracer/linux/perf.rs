//! perf's system call tracepoints on every thread of the process, timed by the kernel.
//!
//! Each thread has two events that share one ring; a thread of the tracer's own empties the rings
//! while the brick runs, into sums. What was lost is the difference between what the events
//! counted and what was read.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

use super::recorder::{Recorder, Recording};
use super::ring::{Record, Ring, Tracepoints};
use super::{sys, threads};
use crate::tracer::breakdown::{BackendProblem, TraceBackend};

/// Data pages of the calling thread's ring: some 7000 system calls until the drain gets to run.
const CALLER_PAGES: usize = 256;
/// And of the other threads' rings: some 800.
const OTHER_PAGES: usize = 32;

const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// `struct perf_event_attr` of include/uapi/linux/perf_event.h as far as PERF_ATTR_SIZE_VER5.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<Attributes>() == 112);

const TYPE_TRACEPOINT: u32 = 2;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const DISABLED: u64 = 1 << 0;
const WATERMARK: u64 = 1 << 14;
const USE_CLOCKID: u64 = 1 << 25;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const IOC_ENABLE: libc::c_ulong = 0x2400;
const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// The two events of one thread.
#[derive(Debug)]
struct Events {
    tid: i32,
    enter: OwnedFd,
    exit: OwnedFd,
}

impl Events {
    fn switch(&self, request: libc::c_ulong) -> io::Result<()> {
        sys::ioctl(&self.exit, request, 0)?;
        sys::ioctl(&self.enter, request, 0)
    }

    /// How many events there were.
    fn counted(&self) -> u64 {
        [&self.enter, &self.exit].map(count).iter().sum()
    }
}

/// The value of a counter.
fn count(fd: &OwnedFd) -> u64 {
    let mut value = 0_u64;
    // SAFETY: writes at most the eight bytes of `value`.
    let read = unsafe { libc::read(fd.as_raw_fd(), (&raw mut value).cast(), size_of::<u64>()) };
    if read == size_of::<u64>() as isize {
        value
    } else {
        0
    }
}

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
        let open = |id| event(sys::gettid(), id, 1).map_err(|error| refused(&error));
        Ok(Keeper {
            _events: [open(enter)?, open(exit)?],
        })
    }
}

/// The window as the drain sees it.
#[derive(Debug)]
struct Window {
    start: AtomicU64,
    end: AtomicU64,
}

/// What is running.
#[derive(Debug)]
pub(super) struct Session {
    events: Vec<Events>,
    window: Arc<Window>,
    stop: Arc<OwnedFd>,
    /// Taken when the session stops.
    drain: Option<JoinHandle<(Recorder, Losses)>>,
}

/// What was read, and what the kernel said was lost.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    read: u64,
    lost: u64,
}

impl Session {
    /// Watches every thread that this process has, with rings of `pages` or as many as allowed.
    pub(super) fn start(pages: Option<NonZeroUsize>) -> Result<Session, BackendProblem> {
        let tracepoints = tracepoints()?;
        let caller = sys::gettid();
        let mut events = Vec::new();
        let mut rings = Vec::new();
        for tid in threads::list(std::process::id()) {
            let wanted = pages.map_or(
                if tid == caller {
                    CALLER_PAGES
                } else {
                    OTHER_PAGES
                },
                NonZeroUsize::get,
            );
            match open(tid, tracepoints, wanted) {
                Ok((thread, ring)) => {
                    events.push(thread);
                    rings.push((tid, ring));
                }
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => return Err(refused(&error)),
            }
        }
        // The calibration is in the caller's.
        rings.sort_by_key(|&(tid, _)| tid != caller);
        let stop = Arc::new(sys::eventfd().map_err(|error| refused(&error))?);
        let window = Arc::new(Window {
            start: AtomicU64::new(u64::MAX),
            end: AtomicU64::new(u64::MAX),
        });
        let own = events.iter().flat_map(|e| [&e.enter, &e.exit]);
        let mut own: Vec<RawFd> = own.map(AsRawFd::as_raw_fd).collect();
        own.push(stop.as_raw_fd());
        let drain = Drain {
            rings,
            fds: events.iter().map(|e| e.enter.as_raw_fd()).collect(),
            tracepoints,
            recorder: Recorder::new(caller, own, false),
            losses: Losses::default(),
            window: Arc::clone(&window),
            stop: Arc::clone(&stop),
        };
        let drain = std::thread::Builder::new()
            .name("brick-tracer".into())
            .spawn(move || drain.run())
            .map_err(|error| refused(&error))?;
        let session = Session {
            events,
            window,
            stop,
            drain: Some(drain),
        };
        // The caller's last: all others see the whole window.
        let (callers, others) = session
            .events
            .iter()
            .partition::<Vec<_>, _>(|e| e.tid == caller);
        for thread in others.into_iter().chain(callers) {
            thread.switch(IOC_ENABLE).map_err(|error| refused(&error))?;
        }
        Ok(session)
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
        let Some((recorder, losses)) = self.stop() else {
            return Recording {
                lost: u64::MAX,
                ..Recording::default()
            };
        };
        let counted: u64 = self.events.iter().map(Events::counted).sum();
        let mut recording = recorder.finish();
        recording.lost = counted.saturating_sub(losses.read).max(losses.lost);
        recording
    }

    /// Switches the events off and waits for the drain to end.
    fn stop(&mut self) -> Option<(Recorder, Losses)> {
        let drain = self.drain.take()?;
        for thread in &self.events {
            // Fails only for descriptors that are no events.
            let _ = thread.switch(IOC_DISABLE);
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
        drain.join().ok()
    }
}

/// A panic came through the brick.
impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the tracer's thread works on.
struct Drain {
    rings: Vec<(i32, Ring)>,
    fds: Vec<RawFd>,
    tracepoints: Tracepoints,
    recorder: Recorder,
    losses: Losses,
    window: Arc<Window>,
    stop: Arc<OwnedFd>,
}

impl Drain {
    fn run(mut self) -> (Recorder, Losses) {
        let wait_for = |&fd: &RawFd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let stop = self.stop.as_raw_fd();
        let mut fds: Vec<libc::pollfd> =
            [&stop].into_iter().chain(&self.fds).map(wait_for).collect();
        loop {
            sys::poll(&mut fds);
            let stopped = fds[0].revents != 0;
            // A thread that ended hangs up: its ring has nothing more to wait for.
            for fd in &mut fds[1..] {
                if fd.revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                    fd.fd = -1;
                }
            }
            self.drain();
            if stopped {
                return (self.recorder, self.losses);
            }
        }
    }

    fn drain(&mut self) {
        let Drain {
            rings,
            tracepoints,
            recorder,
            losses,
            window,
            ..
        } = self;
        recorder.set_window(window.start.load(Relaxed), window.end.load(Relaxed));
        for (tid, ring) in rings {
            ring.drain(|record| match tracepoints.read(record) {
                Record::Event { at, event } => {
                    losses.read += 1;
                    recorder.event(*tid, at, event);
                }
                Record::Lost(n) => losses.lost += n,
                Record::Other => {}
            });
        }
    }
}

/// The two events of a thread, and their ring of `pages`, or fewer where not so many may be locked.
fn open(tid: i32, ids: Tracepoints, pages: usize) -> io::Result<(Events, Ring)> {
    let exit = event(tid, ids.exit, pages)?;
    let enter = event(tid, ids.enter, pages)?;
    let mut pages = pages.next_power_of_two();
    let ring = loop {
        let Some(some) = NonZeroUsize::new(pages) else {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        };
        match Ring::map(enter.as_fd(), some) {
            Ok(ring) => break ring,
            // More than kernel.perf_event_mlock_kb allows.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => pages /= 2,
            Err(error) => return Err(error),
        }
    };
    sys::ioctl(&exit, IOC_SET_OUTPUT, enter.as_raw_fd())?;
    Ok((Events { tid, enter, exit }, ring))
}

/// One tracepoint on one thread, not enabled yet.
fn event(tid: i32, id: u16, pages: usize) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: id.into(),
        sample_period: 1,
        sample_type: SAMPLE_TIME | SAMPLE_RAW,
        flags: DISABLED | WATERMARK | USE_CLOCKID,
        // Bytes at which the drain is woken: a quarter of the ring.
        wakeup: u32::try_from(pages.saturating_mul(1024)).unwrap_or(u32::MAX),
        clockid: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    // SAFETY: the attributes are a struct of the size that they say; the kernel only reads them.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            tid,
            -1,
            -1,
            FLAG_FD_CLOEXEC,
        )
    };
    sys::owned(fd)
}

/// The ids of the tracepoints, whose layout is as expected.
fn tracepoints() -> Result<Tracepoints, BackendProblem> {
    let mut last = None;
    for root in TRACEFS {
        let id = |name: &str, second: &str| {
            let format = fs::read_to_string(format!("{root}/events/raw_syscalls/{name}/format"))?;
            parse_format(&format, second).ok_or(io::ErrorKind::InvalidData.into())
        };
        match (id("sys_enter", "args[6]"), id("sys_exit", "ret")) {
            (Ok(enter), Ok(exit)) => return Ok(Tracepoints { enter, exit }),
            // The first place is the usual one: what is said of it helps more.
            (Err(error), _) | (_, Err(error)) => last = last.or(Some(error)),
        }
    }
    Err(no_tracepoints(
        &last.unwrap_or_else(|| io::ErrorKind::NotFound.into()),
    ))
}

/// The id in a tracepoint's `format` file, if `id` and the field `second` lie where they are read.
fn parse_format(format: &str, second: &str) -> Option<u16> {
    let number = |line: &str, key: &str| -> Option<u32> {
        let (_, rest) = line.split_once(key)?;
        rest.split(';').next()?.trim().parse().ok()
    };
    let at = |name: &str, offset: u32| {
        let wanted = format!(" {name};");
        let mut fields = format.lines().filter(|line| line.contains("field:"));
        fields.any(|line| line.contains(&wanted) && number(line, "offset:") == Some(offset))
    };
    let id = format.lines().find_map(|line| line.strip_prefix("ID:"))?;
    (at("common_type", 0) && at("id", 8) && at(second, 16)).then(|| id.trim().parse().ok())?
}

fn no_tracepoints(error: &io::Error) -> BackendProblem {
    use io::ErrorKind;
    let (why, fix) = match error.kind() {
        ErrorKind::PermissionDenied => (
            "the tracepoints' ids in /sys/kernel/tracing cannot be read",
            Some("run as root, or mount -o remount,mode=755 /sys/kernel/tracing"),
        ),
        ErrorKind::NotFound => (
            "no raw_syscalls tracepoints in /sys/kernel/tracing",
            Some(
                "mount -t tracefs nodev /sys/kernel/tracing (a kernel with CONFIG_FTRACE_SYSCALLS)",
            ),
        ),
        ErrorKind::InvalidData => ("the raw_syscalls tracepoints have an unknown layout", None),
        _ => (
            "the tracepoints' ids in /sys/kernel/tracing cannot be read",
            None,
        ),
    };
    BackendProblem {
        backend: TraceBackend::Perf,
        why: why.into(),
        errno: error.raw_os_error(),
        fix: fix.map(Into::into),
    }
}

fn refused(error: &io::Error) -> BackendProblem {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.map_or_else(|_| "unknown".into(), |p| p.trim().to_owned());
    let (why, fix) = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => (
            format!("perf_event_open is not permitted, kernel.perf_event_paranoid is {paranoid}"),
            Some("run with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1"),
        ),
        Some(libc::ENOSYS) => (
            "perf_event_open does not exist here".into(),
            Some("a kernel with CONFIG_PERF_EVENTS, or a container that allows it"),
        ),
        Some(libc::EMFILE) => (
            "two descriptors per thread are more than this process may open".into(),
            Some("raise the limit: ulimit -n"),
        ),
        _ => (format!("perf_event_open: {error}"), None),
    };
    BackendProblem {
        backend: TraceBackend::Perf,
        why,
        errno: error.raw_os_error(),
        fix: fix.map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_format;

    /// As a kernel 6.18 shows it.
    const SYS_EXIT: &str = "name: sys_exit
ID: 442
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;
\tfield:long ret;\toffset:16;\tsize:8;\tsigned:1;
";

    #[test]
    fn an_id_and_only_of_the_known_layout() {
        assert_eq!(parse_format(SYS_EXIT, "ret"), Some(442));
        assert_eq!(
            parse_format(&SYS_EXIT.replace("offset:16", "offset:24"), "ret"),
            None
        );
        assert_eq!(parse_format(SYS_EXIT, "args[6]"), None);
        assert_eq!(parse_format("", "ret"), None);
    }
}
