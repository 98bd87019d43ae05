//! System calls by number: what they are called, and what they are for.

use super::breakdown::SyscallCategory;

/// The name of a system call of this architecture; `None` for those that threads are seldom seen in.
#[must_use]
pub fn syscall_name(number: i64) -> Option<&'static str> {
    let found = NAMES.iter().find(|(known, _)| *known == number);
    found.map(|(_, name)| *name)
}

#[cfg(not(all(feature = "tracer", target_os = "linux", target_pointer_width = "64")))]
const NAMES: [(i64, &str); 0] = [];

/// What libc knows on every architecture, and the tests show to block, wait or move data.
#[cfg(all(feature = "tracer", target_os = "linux", target_pointer_width = "64"))]
macro_rules! names {
    ($($constant:ident)*) => {
        &[$((libc::$constant, stringify!($constant).split_at(4).1)),*]
    };
}

#[cfg(all(feature = "tracer", target_os = "linux", target_pointer_width = "64"))]
const NAMES: &[(i64, &str)] = names! {
    SYS_accept SYS_accept4 SYS_bpf SYS_brk SYS_clock_nanosleep SYS_clone SYS_clone3 SYS_close
    SYS_connect SYS_epoll_pwait SYS_epoll_pwait2 SYS_exit SYS_fcntl SYS_fdatasync SYS_flock SYS_fsync
    SYS_ftruncate SYS_futex SYS_getrandom SYS_io_getevents SYS_io_uring_enter SYS_ioctl SYS_madvise
    SYS_mlock SYS_mmap SYS_mprotect SYS_mremap SYS_msync SYS_munmap SYS_nanosleep SYS_openat
    SYS_ppoll SYS_pread64 SYS_preadv SYS_preadv2 SYS_pselect6 SYS_pwrite64 SYS_pwritev SYS_pwritev2
    SYS_read SYS_readv SYS_recvfrom SYS_recvmmsg SYS_recvmsg SYS_rt_sigsuspend SYS_rt_sigtimedwait
    SYS_sched_yield SYS_semtimedop SYS_sendfile SYS_sendmsg SYS_sendto SYS_splice SYS_sync
    SYS_wait4 SYS_waitid SYS_write SYS_writev
};

/// What a system call is for, by its number.
#[cfg(all(feature = "tracer", target_os = "linux", target_pointer_width = "64"))]
pub(super) fn category_of(number: i64) -> SyscallCategory {
    // The numbers of futex2's calls are the same everywhere (include/uapi/asm-generic/unistd.h).
    const FUTEX_WAITV: i64 = 449;
    const FUTEX2: std::ops::RangeInclusive<i64> = 454..=456;
    match number {
        libc::SYS_mmap
        | libc::SYS_munmap
        | libc::SYS_mremap
        | libc::SYS_mprotect
        | libc::SYS_madvise
        | libc::SYS_brk => SyscallCategory::Mmap,
        libc::SYS_futex | FUTEX_WAITV => SyscallCategory::Futex,
        n if FUTEX2.contains(&n) => SyscallCategory::Futex,
        libc::SYS_ioctl => SyscallCategory::Ioctl,
        libc::SYS_read
        | libc::SYS_pread64
        | libc::SYS_readv
        | libc::SYS_preadv
        | libc::SYS_preadv2 => SyscallCategory::Read,
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_writev
        | libc::SYS_pwritev
        | libc::SYS_pwritev2 => SyscallCategory::Write,
        _ => SyscallCategory::Other,
    }
}

/// Without the feature `tracer` nothing has numbers in it.
#[cfg(not(all(feature = "tracer", target_os = "linux", target_pointer_width = "64")))]
pub(super) fn category_of(_number: i64) -> SyscallCategory {
    SyscallCategory::Other
}

#[cfg(all(test, feature = "tracer", target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// By the numbers of the kernel's arch/x86/entry/syscalls/syscall_64.tbl.
    #[test]
    fn what_calls_are_for() {
        let numbers: [(SyscallCategory, &[i64]); 6] = [
            (SyscallCategory::Mmap, &[9, 10, 11, 12, 25, 28]),
            (SyscallCategory::Futex, &[202, 449, 454, 455, 456]),
            (SyscallCategory::Ioctl, &[16]),
            (SyscallCategory::Read, &[0, 17, 19, 295, 327]),
            (SyscallCategory::Write, &[1, 18, 20, 296, 328]),
            (
                SyscallCategory::Other,
                &[3, 7, 35, 39, 45, 56, 230, 257, 270, 435, 450],
            ),
        ];
        for (category, numbers) in numbers {
            for &number in numbers {
                assert_eq!(category_of(number), category, "{number}");
            }
        }
    }

    #[test]
    fn what_calls_are_called() {
        let names = [
            (0, "read"),
            (17, "pread64"),
            (202, "futex"),
            (230, "clock_nanosleep"),
        ];
        for (number, name) in names {
            assert_eq!(syscall_name(number), Some(name));
        }
        assert_eq!(syscall_name(-1), None);
    }
}
