//! The traced side of the helper process.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::helper::{self, Task};
use super::recorder::Recording;
use super::{sys, threads};
use crate::tracer::breakdown::{BackendProblem, TraceBackend};

/// How long the helper may take to seize all threads. It takes milliseconds; a thread that sleeps
/// uninterruptibly (a dead network disk) would make it take for ever.
const PATIENCE: Duration = Duration::from_secs(2);

/// A request that a socket answers and that changes nothing (`FIONREAD`).
const MARK: libc::c_ulong = libc::FIONREAD as libc::c_ulong;

/// A helper that traces this process.
#[derive(Debug)]
pub(super) struct Session {
    helper: Child,
    socket: BufReader<UnixStream>,
}

impl Session {
    /// Starts a helper and waits until it has seized every thread. A calibration call takes `plain_ns`
    /// when nobody observes.
    pub(super) fn start(plain_ns: u64) -> Result<Session, BackendProblem> {
        let pid = std::process::id();
        if let Some(tracer) = threads::tracer(sys::gettid()) {
            return Err(traced_by(tracer));
        }
        let failed = |error: io::Error| problem(format!("no helper process: {error}"), &error);
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        let task = Task {
            pid: pid as i32,
            caller: sys::gettid(),
            socket: ours.as_raw_fd(),
            plain_ns,
        };
        // The constructor of the program that is started: it must be linked in.
        std::hint::black_box(&helper::ENTRY);
        let helper = Command::new("/proc/self/exe")
            .arg0("brick-tracer")
            .env(helper::TASK, task.text())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        sys::set_tracer(helper.id());
        let mut session = Session {
            helper,
            socket: BufReader::new(ours),
        };
        let mut answer = String::new();
        match session.socket.read_line(&mut answer) {
            Ok(_) if answer == "ready\n" => Ok(session),
            Ok(_) => Err(session.refused(&answer)),
            Err(error) => Err(problem("the helper process does not answer".into(), &error)),
        }
    }

    /// Why the helper could not trace.
    fn refused(&self, answer: &str) -> BackendProblem {
        let errno = answer
            .strip_prefix("failed ")
            .and_then(|errno| errno.trim_end().parse().ok());
        let Some(errno) = errno else {
            return problem(
                "the helper process ended at once".into(),
                &io::ErrorKind::Other.into(),
            );
        };
        let error = io::Error::from_raw_os_error(errno);
        match threads::tracer(sys::gettid()) {
            Some(tracer) if tracer != self.helper.id() => traced_by(tracer),
            _ => problem(
                format!("the helper process may not trace this one: {error}"),
                &error,
            ),
        }
    }

    /// From here on it counts.
    pub(super) fn begin(&self) -> u64 {
        self.mark();
        sys::now_ns()
    }

    /// Up to here it counted: everything that was seen; `None` if the helper is gone.
    pub(super) fn end(mut self) -> Option<Recording> {
        self.mark();
        let mut text = String::new();
        self.socket.read_to_string(&mut text).ok()?;
        helper::parse(&text)
    }

    /// The helper sees a call on its socket.
    fn mark(&self) {
        let mut waiting: libc::c_int = 0;
        // SAFETY: FIONREAD writes an int.
        unsafe {
            libc::ioctl(
                self.socket.get_ref().as_raw_fd(),
                MARK as _,
                &raw mut waiting,
            )
        };
    }
}

/// Ends the helper, if it has not ended by itself; all its threads go on untraced.
impl Drop for Session {
    fn drop(&mut self) {
        // Fails only where somebody else has waited for it.
        let _ = self.helper.kill();
        let _ = self.helper.wait();
        sys::set_tracer(0);
    }
}

fn problem(why: String, error: &io::Error) -> BackendProblem {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = scope.ok().and_then(|scope| scope.trim().parse::<u8>().ok());
    let fix = match (error.raw_os_error(), scope) {
        (Some(libc::EPERM), Some(2)) => {
            Some("run with CAP_SYS_PTRACE, or sysctl kernel.yama.ptrace_scope=1")
        }
        (Some(libc::EPERM), Some(3)) => {
            Some("kernel.yama.ptrace_scope is 3: reboot with another value")
        }
        (Some(libc::EPERM), _) => Some("a container: allow ptrace (--cap-add SYS_PTRACE)"),
        _ => None,
    };
    BackendProblem {
        backend: TraceBackend::Ptrace,
        why,
        errno: error.raw_os_error(),
        fix: fix.map(Into::into),
    }
}

fn traced_by(tracer: u32) -> BackendProblem {
    let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
    let name = match name.trim_end() {
        "" => String::new(),
        name => format!(" ({name})"),
    };
    BackendProblem {
        backend: TraceBackend::Ptrace,
        why: format!("already traced by process {tracer}{name}"),
        errno: Some(libc::EPERM),
        fix: Some("run without the other tracer".into()),
    }
}
