//! The ids of the system call tracepoints, read from tracefs.

use std::fs;
use std::io;

use crate::tracer::breakdown::{BackendProblem, TraceBackend};
use crate::tracer::observer::ring::Tracepoints;

const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The ids of the tracepoints, whose layout is as expected.
pub(super) fn tracepoints() -> Result<Tracepoints, BackendProblem> {
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
