//! From what was seen to where the time went: the tracer's own time taken out.

use std::collections::{BTreeMap, BTreeSet};

use super::recorder::{Recording, Seen};
use super::threads::Thread;
use crate::figure::Figure;
use crate::tracer::breakdown::{
    BackendProblem, SyscallBreakdown, SyscallCategory, SyscallUsage, ThreadSyscalls, TraceBackend,
};

/// What is known of a call however it was observed.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) backend: TraceBackend,
    pub(super) caller: i32,
    pub(super) wall_ns: f64,
    pub(super) cpu_ns: f64,
    pub(super) queue_ns: Option<f64>,
    /// The threads that there were when it began, and when it ended.
    pub(super) before: BTreeMap<i32, Thread>,
    pub(super) now: BTreeMap<i32, Thread>,
    pub(super) passed_over: Vec<BackendProblem>,
}

const NOT_SEEN: &str = "system calls were not observed";

impl Known {
    /// With what was seen of system calls.
    pub(super) fn with(self, recording: &Recording) -> SyscallBreakdown {
        let mut breakdown = self.without(NOT_SEEN, partial(recording));
        let Some(resolution_ns) = recording.resolution_ns else {
            return breakdown;
        };
        let numbers = recording.threads.iter();
        let mut seen: BTreeMap<i32, BTreeMap<i64, SyscallUsage>> = numbers
            .map(|(&tid, calls)| {
                let usage = |(&number, seen)| (number, self.usage(seen));
                let calls = calls.iter().map(usage);
                (tid, calls.collect())
            })
            .collect();
        let tids = seen.keys().copied().chain(self.on_cpu());
        let tids: BTreeSet<i32> = tids.collect();
        let thread = |tid: i32| ThreadSyscalls {
            by_number: seen.remove(&tid).unwrap_or_default(),
            blocked_in: recording.blocked.get(&tid).copied(),
            ..self.thread(tid, recording.names.get(&tid))
        };
        breakdown.threads = tids.into_iter().map(thread).collect();
        breakdown.threads.sort_by_key(|thread| !thread.is_caller);
        self.account(&mut breakdown, recording);
        breakdown.resolution_us = Figure::Derived {
            value: resolution_ns as f64 / 1e3,
            from: "a cheap system call, observed − unobserved",
        };
        breakdown
    }

    /// Calls of one number on one thread. The helper's window opens before the call begins and closes when
    /// it gets to it, which is late where processors are busy.
    fn usage(&self, seen: &Seen) -> SyscallUsage {
        SyscallUsage {
            calls: seen.calls,
            cut: seen.cut,
            below_resolution: seen.below,
            us: (seen.ns as f64).min(self.wall_ns) / 1e3,
        }
    }

    /// How times in calls are known, and what the tracer took.
    fn sources(&self) -> [&'static str; 2] {
        match self.backend {
            TraceBackend::Ptrace => [
                "observed times − what stops took",
                "time off the CPU in stops where the scheduler counts it, else by the last stops and a calibration",
            ],
            _ => [
                "observed times − calibrated cost of observing",
                "calibrated cost of observing × system calls",
            ],
        }
    }

    /// The fields of the calling thread.
    fn account(&self, breakdown: &mut SyscallBreakdown, recording: &Recording) {
        let [calls, tracer] = self.sources();
        let us = |category| {
            let usage = breakdown.caller().map(|caller| caller.of(category));
            Figure::Derived {
                value: usage.unwrap_or_default().us,
                from: calls,
            }
        };
        let [mmap, futex, ioctl, read, write, other] = SyscallCategory::ALL.map(us);
        breakdown.mmap_us = mmap;
        breakdown.futex_us = futex;
        breakdown.ioctl_us = ioctl;
        breakdown.read_us = read;
        breakdown.write_us = write;
        breakdown.other_us = other;
        let caller = recording.threads.get(&self.caller);
        let (mut calls_ns, mut tracer_ns) = (0, recording.outside_ns);
        for seen in caller.into_iter().flat_map(BTreeMap::values) {
            calls_ns += seen.ns;
            tracer_ns += seen.added;
        }
        breakdown.compute_us = Figure::Derived {
            value: (self.wall_ns - (calls_ns + tracer_ns) as f64).max(0.0) / 1e3,
            from: "wall time − system calls − what observing added",
        };
        breakdown.tracer_us = Figure::Derived {
            value: tracer_ns as f64 / 1e3,
            from: tracer,
        };
    }

    /// With no system call known, because of `why`.
    pub(super) fn without(&self, why: &'static str, partial: Option<String>) -> SyscallBreakdown {
        let unknown = || Figure::unavailable(why);
        let blocked = |queue: f64| (self.wall_ns - self.cpu_ns - queue).max(0.0) / 1e3;
        const NO_QUEUE: &str = "this kernel does not count it (CONFIG_SCHED_INFO)";
        SyscallBreakdown {
            mmap_us: unknown(),
            futex_us: unknown(),
            ioctl_us: unknown(),
            read_us: unknown(),
            write_us: unknown(),
            other_us: unknown(),
            compute_us: unknown(),
            tracer_us: unknown(),
            wall_us: Figure::Measured(self.wall_ns / 1e3),
            cpu_us: Figure::Measured(self.cpu_ns / 1e3),
            run_queue_us: match self.queue_ns {
                Some(ns) => Figure::Measured(ns / 1e3),
                None => Figure::unavailable(NO_QUEUE),
            },
            blocked_us: match self.queue_ns {
                Some(ns) => Figure::Derived {
                    value: blocked(ns),
                    from: "wall time − CPU time − run-queue time",
                },
                None => Figure::unavailable(NO_QUEUE),
            },
            threads: self.threads(),
            backend: self.backend,
            resolution_us: unknown(),
            partial,
            passed_over: self.passed_over.clone(),
        }
    }

    /// CPU nanoseconds that a thread used meanwhile; `None` if it has ended.
    fn cpu_ns(&self, tid: i32) -> Option<u64> {
        // What it took to begin and to end is the caller's too, but not the call's.
        if tid == self.caller {
            return Some(self.cpu_ns as u64);
        }
        // Who was not there before has used all that it used since then.
        let before = self.before.get(&tid).map_or(0, |thread| thread.cpu_ns);
        Some(self.now.get(&tid)?.cpu_ns.saturating_sub(before))
    }

    /// The caller, and the threads that used a CPU.
    fn on_cpu(&self) -> impl Iterator<Item = i32> {
        let tids = self.now.keys().copied();
        tids.filter(|&tid| tid == self.caller || self.cpu_ns(tid).is_some_and(|ns| ns > 0))
    }

    fn threads(&self) -> Vec<ThreadSyscalls> {
        let mut threads: Vec<_> = self.on_cpu().map(|tid| self.thread(tid, None)).collect();
        threads.sort_by_key(|thread| !thread.is_caller);
        threads
    }

    /// A thread of which no call is known. `seen` is what it was last seen to call itself.
    fn thread(&self, tid: i32, seen: Option<&String>) -> ThreadSyscalls {
        let known = |threads: &BTreeMap<i32, Thread>| threads.get(&tid)?.name.clone();
        let name = known(&self.now).or_else(|| seen.cloned());
        ThreadSyscalls {
            tid: tid.unsigned_abs(),
            name: name.or_else(|| known(&self.before)),
            is_caller: tid == self.caller,
            cpu_us: match self.cpu_ns(tid) {
                Some(ns) => Figure::Measured(ns as f64 / 1e3),
                None => Figure::unavailable("the thread has ended"),
            },
            blocked_in: None,
            by_number: BTreeMap::new(),
        }
    }
}

/// What is missing, in words.
fn partial(recording: &Recording) -> Option<String> {
    let mut missing = Vec::new();
    match recording.lost {
        0 => {}
        u64::MAX => missing.push("the thread that collects events is gone".to_owned()),
        lost => missing.push(format!(
            "{lost} events were lost: they came faster than they were collected"
        )),
    }
    if recording.unfollowed > 0 {
        let n = recording.unfollowed;
        let why = recording.not_followed.as_deref();
        missing.push(format!(
            "{n} threads or processes started meanwhile are not in it{}",
            why.map_or_else(
                || " (processes are not followed)".into(),
                |why| format!(" ({why})")
            )
        ));
    }
    if recording.resolution_ns.is_none() {
        missing.push("the calibration was not seen".to_owned());
    }
    (!missing.is_empty()).then(|| missing.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads<const N: usize>(all: [(i32, &str, u64); N]) -> BTreeMap<i32, Thread> {
        let thread = |(tid, name, cpu_ns): (i32, &str, u64)| {
            let name = Some(name.to_owned());
            (tid, Thread { name, cpu_ns })
        };
        all.map(thread).into()
    }

    fn known() -> Known {
        Known {
            backend: TraceBackend::Ptrace,
            caller: 1,
            wall_ns: 1_000_000.0,
            cpu_ns: 400_000.0,
            queue_ns: Some(100_000.0),
            before: threads([(1, "main", 100), (2, "idle", 70), (4, "ended", 5)]),
            // Beginning and ending took the caller 7 µs more.
            now: threads([(1, "main", 407_100), (2, "idle", 70), (3, "born", 50_000)]),
            passed_over: Vec::new(),
        }
    }

    fn value(figure: &Figure) -> f64 {
        figure.value().expect("known")
    }

    /// By hand: ten reads took 230 µs, to which observing added 70, and 20 outside of them.
    #[test]
    fn tracer_time_is_in_nothing_but_its_own_figure() {
        let reads = Seen {
            calls: 10,
            ns: 230_000,
            added: 70_000,
            ..Seen::default()
        };
        let recording = Recording {
            threads: BTreeMap::from([(1, BTreeMap::from([(libc::SYS_read, reads)]))]),
            resolution_ns: Some(7_000),
            outside_ns: 20_000,
            ..Recording::default()
        };
        let breakdown = known().with(&recording);
        assert_eq!(value(&breakdown.read_us), 230.0);
        assert_eq!(value(&breakdown.futex_us), 0.0);
        assert_eq!(value(&breakdown.compute_us), 680.0);
        assert_eq!(value(&breakdown.tracer_us), 90.0);
        assert_eq!(value(&breakdown.resolution_us), 7.0);
        assert_eq!(value(&breakdown.blocked_us), 500.0);
        // 680 + 230 + 90: the parts are the whole.
        assert_eq!(value(&breakdown.wall_us), 1000.0);
        assert_eq!(value(&breakdown.syscall_share()), 230.0 / 910.0);
        assert_eq!(breakdown.partial, None);
        let tids: Vec<u32> = breakdown.threads.iter().map(|t| t.tid).collect();
        assert_eq!(tids, [1, 3]);
    }

    /// The window of who observes may be longer than the call.
    #[test]
    fn nobody_is_in_calls_for_longer_than_the_call() {
        let waited = Seen {
            cut: 1,
            ns: 1_030_000,
            ..Seen::default()
        };
        let recording = Recording {
            threads: BTreeMap::from([(2, BTreeMap::from([(libc::SYS_futex, waited)]))]),
            resolution_ns: Some(1),
            ..Recording::default()
        };
        let breakdown = known().with(&recording);
        let idle = breakdown.threads.iter().find(|thread| thread.tid == 2);
        assert_eq!(idle.unwrap().total().us, 1000.0);
    }

    /// 1 has called, 2 has waited, 3 was born and worked, 4 was there and has ended, 5 was born and has.
    #[test]
    fn threads_by_name() {
        let read = Seen {
            calls: 1,
            ..Seen::default()
        };
        let calls = [1, 2, 4, 5].map(|tid| (tid, BTreeMap::from([(libc::SYS_read, read)])));
        let recording = Recording {
            threads: calls.into(),
            blocked: BTreeMap::from([(2, libc::SYS_futex)]),
            names: BTreeMap::from([(3, "early".to_owned()), (5, "short".to_owned())]),
            resolution_ns: Some(1),
            ..Recording::default()
        };
        let breakdown = known().with(&recording);
        let threads = breakdown.threads.iter();
        let told: Vec<_> = threads
            .map(|thread| {
                let name = thread.name.as_deref().unwrap_or("?");
                (thread.tid, name, thread.cpu_us.value(), thread.blocked_in)
            })
            .collect();
        let expected = [
            (1, "main", Some(400.0), None),
            (2, "idle", Some(0.0), Some(libc::SYS_futex)),
            // What it calls itself now, not what it did at first.
            (3, "born", Some(50.0), None),
            (4, "ended", None, None),
            (5, "short", None, None),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let breakdown = known().without("not looked at", None);
        for category in SyscallCategory::ALL {
            assert_eq!(breakdown.us(category).value(), None);
        }
        assert_eq!(breakdown.compute_us.value(), None);
        assert_eq!(breakdown.syscall_share().value(), None);
        let lost = Recording {
            lost: 7,
            unfollowed: 2,
            ..Recording::default()
        };
        let partial = known().with(&lost).partial.unwrap();
        assert!(partial.starts_with("7 events were lost"), "{partial}");
        assert!(partial.contains("2 threads or processes"), "{partial}");
        assert!(partial.contains("calibration"), "{partial}");
    }
}
