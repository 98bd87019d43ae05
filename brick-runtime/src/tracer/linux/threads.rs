//! The threads of a process, read from `/proc` and their CPU clocks.

use std::collections::BTreeMap;
use std::fs;

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

/// CPU nanoseconds of every thread of this process.
pub(super) fn cpu_ns() -> BTreeMap<i32, u64> {
    let threads = list(std::process::id()).into_iter();
    threads
        .filter_map(|tid| Some((tid, sys::cpu_ns_of(tid)?)))
        .collect()
}

/// Nanoseconds that the calling thread was ready and had no CPU; `None` where the kernel does not
/// count that.
pub(super) fn own_queue_ns() -> Option<u64> {
    parse_queue(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// The name of a thread of this process; `None` if it has ended.
pub(super) fn name(tid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/self/task/{tid}/comm")).ok()?;
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

/// Of `cpu queue timeslices`, in nanoseconds (Documentation/scheduler/sched-stats.rst). The first
/// is as of the last tick, so the CPU clocks are read instead.
fn parse_queue(text: &str) -> Option<u64> {
    let mut fields = text
        .split_ascii_whitespace()
        .map(|field| field.parse().ok());
    let [_, Some(queue), Some(timeslices)] = [fields.next()?, fields.next()?, fields.next()?]
    else {
        return None;
    };
    // Without CONFIG_SCHED_INFO all is 0, and a thread that runs has had a timeslice.
    (timeslices > 0).then_some(queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_or_nothing() {
        assert_eq!(parse_queue("1234 56 7\n"), Some(56));
        assert_eq!(parse_queue("0 57035 1\n"), Some(57035));
        assert_eq!(parse_queue("0 0 0\n"), None);
        assert_eq!(parse_queue("1234\n"), None);
        assert_eq!(parse_queue(""), None);
    }
}
