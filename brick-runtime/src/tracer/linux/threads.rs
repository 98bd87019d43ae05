//! The threads of a process, read from `/proc` and their CPU clocks.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use super::overhead::Ran;
use super::sys;

/// The threads of a process.
pub(super) fn list(pid: u32) -> Vec<i32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"));
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// A thread of this process at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) name: Option<String>,
    pub(super) cpu_ns: u64,
}

/// Every thread of this process, but for `except`.
pub(super) fn all(except: Option<i32>) -> BTreeMap<i32, Thread> {
    let threads = list(std::process::id()).into_iter();
    threads
        .filter(|&tid| Some(tid) != except)
        .filter_map(|tid| {
            let thread = Thread {
                name: name(std::process::id(), tid),
                cpu_ns: sys::cpu_ns_of(tid)?,
            };
            Some((tid, thread))
        })
        .collect()
}

/// The threads of a process that are in a system call right now, and its number.
pub(super) fn in_calls(pid: u32) -> Vec<(i32, i64)> {
    let threads = list(pid).into_iter();
    threads
        .filter_map(|tid| Some((tid, in_call(pid, tid)?)))
        .collect()
}

/// The number of the system call that a thread is in; `None` if it is in none, or nobody may know.
pub(super) fn in_call(pid: u32, tid: i32) -> Option<i64> {
    parse_call(&fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
}

/// Of `number arguments stack instruction`, `-1 stack instruction` outside of calls, or `running`
/// (proc_pid_syscall(5)).
fn parse_call(text: &str) -> Option<i64> {
    let number = text.split(' ').next()?.trim_end().parse().ok()?;
    (number >= 0).then_some(number)
}

/// Nanoseconds that the calling thread was ready and had no CPU; `None` where the kernel does not
/// count that.
pub(super) fn own_queue_ns() -> Option<u64> {
    // The running time in it is as of the last tick, so the CPU clocks are read instead.
    let [_, queue, _] = parse_schedule(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)?;
    Some(queue)
}

/// The name of a thread of a process; `None` if it has ended.
pub(super) fn name(pid: u32, tid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The process that traces a thread; `None` if there is none.
pub(super) fn tracer(tid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|&pid| pid != 0)
}

/// What the scheduler counts of a thread, kept open to be read often.
#[derive(Debug)]
pub(super) struct Schedule(File);

impl Schedule {
    /// Of a thread of the process `pid`; `None` where this kernel has none, or the thread ended.
    pub(super) fn open(pid: u32, tid: i32) -> Option<Schedule> {
        let file = File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
        Some(Schedule(file))
    }

    /// What it has run until its stop number `stops`, counted from anywhere. Exact only now that it has
    /// left its processor for that.
    pub(super) fn ran(&self, stops: u64) -> Option<Ran> {
        // Three numbers of at most twenty digits.
        let mut text = [0; 64];
        let n = self.0.read_at(&mut text, 0).ok()?;
        let [ns, waited_ns, times] = parse_schedule(std::str::from_utf8(&text[..n]).ok()?)?;
        Some(Ran {
            ns,
            waited_ns,
            // For each time that it got a processor it has left it, now too.
            breaks: times.wrapping_sub(stops),
        })
    }
}

/// `running waiting timeslices`, the first two in nanoseconds
/// (Documentation/scheduler/sched-stats.rst); `None` where the kernel does not count.
fn parse_schedule(text: &str) -> Option<[u64; 3]> {
    let mut fields = text.split_ascii_whitespace();
    let mut field = || fields.next()?.parse().ok();
    let schedule = [field()?, field()?, field()?];
    // Without CONFIG_SCHED_INFO all is 0, and a thread that runs has had a timeslice.
    (schedule[2] > 0).then_some(schedule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_or_none() {
        let sleeping =
            "230 0x1 0x1 0x7fd884f7aab0 0x0 0x0 0x7fd885d4e6e8 0x7fd884f7aa70 0x7fd8856ed545\n";
        assert_eq!(parse_call(sleeping), Some(230));
        assert_eq!(parse_call("-1 0x7ffd8cd3c3a0 0x7fd8857162ec\n"), None);
        assert_eq!(parse_call("running\n"), None);
        assert_eq!(parse_call(""), None);
    }

    #[test]
    fn schedstat_or_nothing() {
        assert_eq!(parse_schedule("1234 56 7\n"), Some([1234, 56, 7]));
        assert_eq!(parse_schedule("0 57035 1\n"), Some([0, 57035, 1]));
        assert_eq!(parse_schedule("0 0 0\n"), None);
        assert_eq!(parse_schedule("1234\n"), None);
        assert_eq!(parse_schedule(""), None);
    }
}
