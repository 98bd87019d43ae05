//! Where the time of one call went.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use super::syscall::category_of;
use crate::figure::Figure;

/// A way to see the system calls of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum TraceBackend {
    /// perf's tracepoints `raw_syscalls:sys_enter` and `sys_exit`, timed by the kernel.
    Perf,
    /// A helper process that stops each thread at each system call.
    Ptrace,
    /// No system calls: CPU time and time on the run queue of the calling thread.
    Cpu,
}

impl TraceBackend {
    /// Best first.
    pub const ALL: [TraceBackend; 3] =
        [TraceBackend::Perf, TraceBackend::Ptrace, TraceBackend::Cpu];

    /// `perf`, `ptrace` or `cpu`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TraceBackend::Perf => "perf",
            TraceBackend::Ptrace => "ptrace",
            TraceBackend::Cpu => "cpu",
        }
    }
}

impl fmt::Display for TraceBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a system call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum SyscallCategory {
    /// Address space: `mmap`, `munmap`, `mremap`, `mprotect`, `madvise`, `brk`.
    Mmap,
    /// Waiting for, and waking, other threads.
    Futex,
    /// Device drivers.
    Ioctl,
    /// Input: `read`, `pread64`, `readv`, `preadv`, `preadv2`.
    Read,
    /// Output: the same with `write`.
    Write,
    /// Everything else.
    Other,
}

impl SyscallCategory {
    /// In the order of [`SyscallBreakdown`]'s fields.
    pub const ALL: [SyscallCategory; 6] = [
        SyscallCategory::Mmap,
        SyscallCategory::Futex,
        SyscallCategory::Ioctl,
        SyscallCategory::Read,
        SyscallCategory::Write,
        SyscallCategory::Other,
    ];

    /// `mmap`, `futex`, ….
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SyscallCategory::Mmap => "mmap",
            SyscallCategory::Futex => "futex",
            SyscallCategory::Ioctl => "ioctl",
            SyscallCategory::Read => "read",
            SyscallCategory::Write => "write",
            SyscallCategory::Other => "other",
        }
    }
}

/// System calls of one number, or of one category.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SyscallUsage {
    /// Calls that began while the brick ran.
    pub calls: u64,
    /// Calls that were under way when the brick began or ended; their time outside is not in `us`.
    pub cut: u64,
    /// Calls shorter than what observing added to them and was not measured but calibrated: what is
    /// left of their time is uncertain.
    pub below_resolution: u64,
    /// Microseconds in the kernel, without what observing added.
    pub us: f64,
}

impl SyscallUsage {
    fn add(&mut self, other: &SyscallUsage) {
        self.calls += other.calls;
        self.cut += other.cut;
        self.below_resolution += other.below_resolution;
        self.us += other.us;
    }
}

/// What one thread did while the brick ran.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ThreadSyscalls {
    /// The kernel's thread id.
    pub tid: u32,
    /// The thread's name; `None` if it has ended and nobody heard it.
    pub name: Option<String>,
    /// It is the thread that called the brick.
    pub is_caller: bool,
    /// Microseconds on a CPU while the brick ran: who was working while others waited.
    pub cpu_us: Figure,
    /// The system call that the thread was in from the brick's beginning to its end, by number: so long
    /// it waited. Its time is in `by_number` too, where it is one call, cut at both ends.
    pub blocked_in: Option<i64>,
    /// By the kernel's number for the system call.
    pub by_number: BTreeMap<i64, SyscallUsage>,
}

impl ThreadSyscalls {
    /// The thread's calls of one category.
    #[must_use]
    pub fn of(&self, category: SyscallCategory) -> SyscallUsage {
        let mut sum = SyscallUsage::default();
        for (&number, usage) in &self.by_number {
            if category_of(number) == category {
                sum.add(usage);
            }
        }
        sum
    }

    /// All calls of the thread.
    #[must_use]
    pub fn total(&self) -> SyscallUsage {
        let mut sum = SyscallUsage::default();
        self.by_number.values().for_each(|usage| sum.add(usage));
        sum
    }
}

/// Where the time of one call went, on the thread that made it; other threads stand in
/// [`threads`](Self::threads), never summed against the call's wall time.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SyscallBreakdown {
    /// Microseconds in memory management: see [`SyscallCategory::Mmap`].
    pub mmap_us: Figure,
    /// Microseconds waiting for or waking threads.
    pub futex_us: Figure,
    /// Microseconds in drivers.
    pub ioctl_us: Figure,
    /// Microseconds in input.
    pub read_us: Figure,
    /// Microseconds in output.
    pub write_us: Figure,
    /// Microseconds in all other system calls.
    pub other_us: Figure,
    /// Microseconds outside the kernel: wall time without system calls and without what the
    /// tracer took. Time on the run queue is in here, but for what followed a stop of the tracer's; see
    /// `run_queue_us`.
    pub compute_us: Figure,
    /// Microseconds that tracing added to the call. With [`Ptrace`](TraceBackend::Ptrace), what its
    /// stops took off the CPU is measured where the scheduler counts it; all else is calibrated next to
    /// the call. Waiting for a CPU after a stop is in here, for the thread had one.
    pub tracer_us: Figure,
    /// Wall-clock microseconds of the call as it ran, tracing included.
    pub wall_us: Figure,
    /// Microseconds on a CPU, user and kernel, the tracing on this thread included.
    pub cpu_us: Figure,
    /// Microseconds ready to run, but without a CPU.
    pub run_queue_us: Figure,
    /// Microseconds neither on a CPU nor waiting for one: blocked.
    pub blocked_us: Figure,
    /// Threads that made system calls or used a CPU meanwhile, the caller first.
    pub threads: Vec<ThreadSyscalls>,
    /// What it was observed with.
    pub backend: TraceBackend,
    /// Microseconds that observing one system call adds, by the calibration.
    pub resolution_us: Figure,
    /// Why something may be missing; `None` if nothing is.
    pub partial: Option<String>,
    /// Better backends, and why they could not be used.
    pub passed_over: Vec<BackendProblem>,
}

impl SyscallBreakdown {
    /// Of the calling thread; `None` where the backend sees no system calls.
    #[must_use]
    pub fn caller(&self) -> Option<&ThreadSyscalls> {
        self.threads.iter().find(|thread| thread.is_caller)
    }

    /// Microseconds of one category on the calling thread.
    #[must_use]
    pub fn us(&self, category: SyscallCategory) -> &Figure {
        match category {
            SyscallCategory::Mmap => &self.mmap_us,
            SyscallCategory::Futex => &self.futex_us,
            SyscallCategory::Ioctl => &self.ioctl_us,
            SyscallCategory::Read => &self.read_us,
            SyscallCategory::Write => &self.write_us,
            SyscallCategory::Other => &self.other_us,
        }
    }

    /// Share of the call's time, tracing taken out, that went into system calls: 0.6 is 60 %.
    #[must_use]
    pub fn syscall_share(&self) -> Figure {
        let [Some(wall), Some(tracer)] = [self.wall_us.value(), self.tracer_us.value()] else {
            return Figure::unavailable("system calls were not observed");
        };
        let calls = SyscallCategory::ALL.iter().map(|&c| self.us(c).value());
        match calls.sum::<Option<f64>>() {
            Some(us) if wall > tracer => Figure::Derived {
                value: us / (wall - tracer),
                from: "time in system calls / (wall time − tracer time)",
            },
            Some(_) => Figure::unavailable("the tracer took all of the call's time"),
            None => Figure::unavailable("system calls were not observed"),
        }
    }
}

/// Why a backend cannot be used, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BackendProblem {
    /// Which.
    pub backend: TraceBackend,
    /// What failed.
    pub why: String,
    /// The system's error number, where one was given.
    pub errno: Option<i32>,
    /// What to do; `None` where nothing helps.
    pub fix: Option<Cow<'static, str>>,
}

impl fmt::Display for BackendProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.backend, self.why)?;
        if let Some(errno) = self.errno {
            write!(f, " (errno {errno})")?;
        }
        match &self.fix {
            Some(fix) => write!(f, "; fix: {fix}"),
            None => Ok(()),
        }
    }
}
