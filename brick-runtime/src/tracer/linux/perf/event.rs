//! perf events: a tracepoint on a thread, and the ring that its records go to.

use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::tracer::breakdown::{BackendProblem, TraceBackend};
use crate::tracer::observer::ring::{Ring, Tracepoints};
use crate::tracer::observer::sys;

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
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const DISABLED: u64 = 1 << 0;
const INHERIT: u64 = 1 << 1;
const COMM: u64 = 1 << 9;
const WATERMARK: u64 = 1 << 14;
const USE_CLOCKID: u64 = 1 << 25;
const INHERIT_THREAD: u64 = 1 << 35;
const FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
pub(super) const IOC_ENABLE: libc::c_ulong = 0x2400;
pub(super) const IOC_DISABLE: libc::c_ulong = 0x2401;
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;

/// What an event is of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// One thread, wherever it runs.
    Thread(i32),
    /// One thread and all that it starts, and those start, while they run on this processor: the
    /// kernel gives the records of many threads one ring only where the ring is of one processor.
    Family {
        /// The first of them.
        tid: i32,
        /// The processor's number.
        cpu: i32,
    },
}

impl Of {
    pub(super) fn tid(self) -> i32 {
        match self {
            Of::Thread(tid) | Of::Family { tid, .. } => tid,
        }
    }
}

/// The two events of one thread, on one processor or all.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) of: Of,
    pub(super) enter: OwnedFd,
    pub(super) exit: OwnedFd,
}

impl Events {
    /// Not enabled yet; the drain is to be woken for a quarter of a ring of `pages`.
    pub(super) fn open(of: Of, ids: Tracepoints, pages: usize) -> io::Result<Events> {
        let exit = event(of, ids.exit, pages, 0)?;
        // One of the two tells of names.
        let enter = event(of, ids.enter, pages, COMM)?;
        Ok(Events { of, enter, exit })
    }

    /// A ring of `pages` for both, or of fewer where not so many may be locked.
    pub(super) fn ring(&self, pages: usize) -> io::Result<Ring> {
        let mut pages = pages.next_power_of_two();
        let ring = loop {
            let Some(some) = NonZeroUsize::new(pages) else {
                return Err(io::Error::from_raw_os_error(libc::EPERM));
            };
            match Ring::map(self.enter.as_fd(), some) {
                Ok(ring) => break ring,
                // More than kernel.perf_event_mlock_kb allows.
                Err(error) if error.raw_os_error() == Some(libc::EPERM) => pages /= 2,
                Err(error) => return Err(error),
            }
        };
        redirect(&self.exit, &self.enter)?;
        Ok(ring)
    }

    /// Sends the records of both to the ring of others on the same processor.
    pub(super) fn share(&self, ring: &Events) -> io::Result<()> {
        redirect(&self.exit, &ring.enter)?;
        redirect(&self.enter, &ring.enter)
    }

    pub(super) fn switch(&self, request: libc::c_ulong) -> io::Result<()> {
        sys::ioctl(&self.exit, request, 0)?;
        sys::ioctl(&self.enter, request, 0)
    }

    /// How many events there were, those of started threads included.
    pub(super) fn counted(&self) -> u64 {
        [&self.enter, &self.exit].map(count).iter().sum()
    }
}

fn redirect(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    sys::ioctl(from, IOC_SET_OUTPUT, to.as_raw_fd())
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

/// One tracepoint on one thread, not enabled yet.
pub(super) fn event(of: Of, id: u16, pages: usize, flags: u64) -> io::Result<OwnedFd> {
    let (tid, cpu, inherit) = match of {
        Of::Thread(tid) => (tid, -1, 0),
        // Threads only: a process that is started is not this one.
        Of::Family { tid, cpu } => (tid, cpu, INHERIT | INHERIT_THREAD),
    };
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: id.into(),
        sample_period: 1,
        sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_RAW,
        flags: DISABLED | WATERMARK | USE_CLOCKID | inherit | flags,
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
            cpu,
            -1,
            FLAG_FD_CLOEXEC,
        )
    };
    sys::owned(fd)
}

pub(super) fn refused(error: &io::Error) -> BackendProblem {
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
