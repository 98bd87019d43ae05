//! System calls that std has no name for, each behind a safe function.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock that all backends share.
pub(super) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC).unwrap_or_default()
}

/// CPU nanoseconds of the calling thread.
pub(super) fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

/// CPU nanoseconds of a thread of this process; `None` if it has ended.
pub(super) fn cpu_ns_of(tid: i32) -> Option<u64> {
    // A thread's CPU clock: `MAKE_THREAD_CPUCLOCK(tid, CPUCLOCK_SCHED)` of the kernel's
    // include/linux/posix-timers.h.
    clock_ns(!tid << 3 | 4 | 2)
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a timespec that the kernel may write.
    let result = unsafe { libc::clock_gettime(clock, &mut time) };
    (result == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The calling thread's id.
pub(super) fn gettid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }
}

/// A system call that does next to nothing: what observing one costs is measured with it.
pub(super) fn getppid() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getppid() }
}

/// A counter that a `poll` can wait for.
pub(super) fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    owned(fd.into())
}

/// The descriptor that a system call returned, or its error.
pub(super) fn owned(fd: libc::c_long) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that the kernel just gave, and nobody else knows.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Descriptors that this process may have open, softly and at most; `None` if nobody says.
fn descriptor_limits() -> Option<libc::rlimit> {
    let mut limits = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limits` is an rlimit that the kernel may write.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limits) };
    (result == 0).then_some(limits)
}

/// Descriptors that this process may have open.
pub(super) fn descriptor_limit() -> u64 {
    descriptor_limits().map_or(0, |limits| limits.rlim_cur)
}

/// Lets this process have as many descriptors as it may.
pub(super) fn raise_descriptor_limit() {
    if let Some(limits) = descriptor_limits() {
        let most = libc::rlimit {
            rlim_cur: limits.rlim_max,
            ..limits
        };
        // SAFETY: reads an rlimit. Where it is refused, all stays as it was.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &most) };
    }
}

/// `ioctl` with a number as its argument, or none.
pub(super) fn ioctl(fd: &impl AsRawFd, request: libc::c_ulong, argument: i32) -> io::Result<()> {
    // SAFETY: the requests used here take an integer, not a pointer.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits until one of `fds` can be read.
pub(super) fn poll(fds: &mut [libc::pollfd]) {
    // SAFETY: a slice of pollfds with its length. An error (EINTR) is an early return: the caller
    // looks at everything each time.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, -1) };
}

/// Lets the process `pid` trace this one, where the Yama module would not; 0 takes it back.
pub(super) fn set_tracer(pid: u32) {
    // SAFETY: takes integers. EINVAL means that there is no Yama to ask.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::c_ulong::from(pid), 0, 0, 0) };
}
