//! The helper process: this program again, which becomes a tracer before `main`.
//!
//! A thread cannot trace its own process, and a fork of a process with threads may do next to
//! nothing; so the program is started anew (`/proc/self/exe`), with an environment variable that
//! says what for. A constructor sees it before anything else runs. Standard input is a socket to the
//! traced process: one line says that all threads are seized (`ready`) or why not (`failed
//! ERRNO`); what was seen comes when the window has closed. Then the helper ends, which lets go of
//! every thread; so does killing it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;

use super::overhead::Moment;
use super::recorder::{Event, Recorder, Recording, Seen};
use super::threads::Schedule;
use super::{sys, threads};

/// What the helper is to do: `pid caller socket plain`. The socket is the traced process' own number
/// of its end of it, the last what a calibration call takes untraced.
pub(super) const TASK: &str = "BRICK_TRACER_TASK";

/// Runs in every program that this file is linked into, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
pub(super) static ENTRY: extern "C" fn() = {
    extern "C" fn entry() {
        // SAFETY: the name is a C string. Nobody changes the environment before `main`.
        let task = unsafe { libc::getenv(c"BRICK_TRACER_TASK".as_ptr()) };
        if !task.is_null() {
            become_tracer();
        }
    }
    entry
};

/// The helper's whole life. Returns only if this is none after all.
#[cold]
fn become_tracer() {
    let Some(task) = std::env::var(TASK).ok().and_then(|task| Task::parse(&task)) else {
        return;
    };
    // SAFETY: takes integers.
    let parent = unsafe { libc::getppid() };
    if parent != task.pid {
        // Inherited by somebody else's child.
        return;
    }
    // SAFETY: the parent put the socket there; nobody else in this process uses it.
    let mut socket = ManuallyDrop::new(unsafe { UnixStream::from_raw_fd(0) });
    // SAFETY: takes integers. Without its parent the helper has nothing to do.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // A file is kept open for each thread.
    sys::raise_descriptor_limit();
    let answer = match Tracer::seize(task) {
        Ok(tracer) => tracer.run(&mut socket),
        Err(error) => Some(format!("failed {}\n", error.raw_os_error().unwrap_or(0))),
    };
    if let Some(answer) = answer {
        // If nobody listens any more, there is nobody to tell.
        let _ = socket.write_all(answer.as_bytes());
    }
    // SAFETY: ends the process without the destructors of a program that never began.
    unsafe { libc::_exit(0) };
}

/// Who is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) pid: i32,
    pub(super) caller: i32,
    pub(super) socket: i32,
    /// Nanoseconds.
    pub(super) plain_ns: u64,
}

impl Task {
    pub(super) fn text(self) -> String {
        let Task {
            pid,
            caller,
            socket,
            plain_ns,
        } = self;
        format!("{pid} {caller} {socket} {plain_ns}")
    }

    fn parse(text: &str) -> Option<Task> {
        let mut words = text.split(' ');
        Some(Task {
            pid: words.next()?.parse().ok()?,
            caller: words.next()?.parse().ok()?,
            socket: words.next()?.parse().ok()?,
            plain_ns: words.next()?.parse().ok()?,
        })
    }
}

/// `PTRACE_*` of include/uapi/linux/ptrace.h; libc has them as different types for each C library.
mod request {
    pub(super) const DETACH: u32 = 17;
    pub(super) const SYSCALL: u32 = 24;
    pub(super) const SEIZE: u32 = 0x4206;
    pub(super) const INTERRUPT: u32 = 0x4207;
    pub(super) const LISTEN: u32 = 0x4208;
    pub(super) const GET_SYSCALL_INFO: u32 = 0x420e;
    pub(super) const OPTION_SYSGOOD: usize = 1;
    pub(super) const OPTION_CLONE: usize = 1 << 3;
    pub(super) const EVENT_STOP: i32 = 128;
}

/// `struct ptrace_syscall_info`: what is read of it is the same on every architecture.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct SyscallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// At an entry the number and six arguments; at an exit the result first.
    words: [i64; 8],
}

impl SyscallInfo {
    const ENTRY: u8 = 1;
    const EXIT: u8 = 2;
}

fn ptrace(request: u32, tid: i32, address: usize, data: usize) -> io::Result<i64> {
    // SAFETY: with the requests used here, the only pointer is `data` of `GET_SYSCALL_INFO`, which
    // points to a `SyscallInfo` of `address` bytes. The tracee is stopped where it has to be, or
    // the kernel says ESRCH.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_ulong::from(request),
            libc::c_long::from(tid),
            address,
            data,
        )
    };
    match result {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

/// What `PTRACE_O_TRACESYSGOOD` sets in the signal of a stop at a system call.
const SYSCALL_STOP: i32 = 0x80;

/// A thread that is traced.
#[derive(Debug)]
struct Tracee {
    /// It has not stopped since it was seized.
    fresh: bool,
    /// Its stops so far, of any kind.
    stops: u64,
    /// What the scheduler counts of it; `None` where that cannot be read.
    schedule: Option<Schedule>,
}

impl Tracee {
    fn new(pid: i32, tid: i32) -> Tracee {
        Tracee {
            fresh: true,
            stops: 0,
            schedule: Schedule::open(pid as u32, tid),
        }
    }
}

#[derive(Debug)]
struct Tracer {
    task: Task,
    tracees: BTreeMap<i32, Tracee>,
    recorder: Recorder,
    /// Calls on the socket, of the kind that marks the window, that the caller has begun.
    marks: u32,
    /// When the window opened; `u64::MAX` before.
    start: u64,
}

impl Tracer {
    /// Seizes every thread; they are stopped, or about to be.
    fn seize(task: Task) -> io::Result<Tracer> {
        let mut tracees = BTreeMap::new();
        let mut recorder = Recorder::new(task.caller, vec![task.socket], task.plain_ns);
        loop {
            let before = tracees.len();
            for tid in threads::list(task.pid as u32) {
                if tracees.contains_key(&tid) {
                    continue;
                }
                let options = request::OPTION_SYSGOOD | request::OPTION_CLONE;
                match ptrace(request::SEIZE, tid, 0, options) {
                    Ok(_) => {
                        // The interruption makes some calls go on under another number.
                        if let Some(number) = threads::in_call(task.pid as u32, tid) {
                            recorder.was_in(tid, number);
                        }
                        tracees.insert(tid, Tracee::new(task.pid, tid));
                        ptrace(request::INTERRUPT, tid, 0, 0)?;
                    }
                    // It has ended, or a thread that is traced already started it: then it is, too.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(_) if threads::tracer(tid) == Some(std::process::id()) => {
                        tracees.insert(tid, Tracee::new(task.pid, tid));
                    }
                    Err(error) => return Err(error),
                }
            }
            // Until a look finds nobody new: threads may start threads meanwhile.
            if tracees.len() == before {
                break;
            }
        }
        Ok(Tracer {
            task,
            tracees,
            recorder,
            marks: 0,
            start: u64::MAX,
        })
    }

    /// Follows the threads until the window has closed: what was seen, as text. `None` if there is
    /// nobody left to tell.
    fn run(mut self, socket: &mut UnixStream) -> Option<String> {
        let mut is_ready = false;
        loop {
            if !is_ready && self.tracees.values().all(|tracee| !tracee.fresh) {
                socket.write_all(b"ready\n").ok()?;
                is_ready = true;
            }
            let mut status = 0;
            // SAFETY: `status` is an int that the kernel may write.
            let tid = unsafe { libc::waitpid(-1, &mut status, libc::__WALL) };
            let now = sys::now_ns();
            if tid < 0 {
                match io::Error::last_os_error().kind() {
                    io::ErrorKind::Interrupted => continue,
                    _ => return None,
                }
            }
            if !libc::WIFSTOPPED(status) {
                self.tracees.remove(&tid);
                continue;
            }
            if self.stopped(tid, status, now) {
                // Free the caller first: it is to read what follows.
                let _ = ptrace(request::DETACH, tid, 0, 0);
                let followed = threads::list(self.task.pid as u32);
                return Some(text(&self.recorder.finish(&followed)));
            }
        }
    }

    /// Looks at a stopped thread and lets it go on; true if the window has closed.
    fn stopped(&mut self, tid: i32, status: i32, now: u64) -> bool {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        // A thread that was just born is traced from its first stop on.
        let born = || Tracee::new(self.task.pid, tid);
        let tracee = self.tracees.entry(tid).or_insert_with(born);
        tracee.fresh = false;
        tracee.stops += 1;
        let (resume, signal) = match signal {
            s if s == libc::SIGTRAP | SYSCALL_STOP => {
                if self.syscall_stop(tid, now) {
                    return true;
                }
                (request::SYSCALL, 0)
            }
            // A stop of the whole process by a signal: it stays stopped, and we hear of its end.
            s if event == request::EVENT_STOP && s != libc::SIGTRAP => (request::LISTEN, 0),
            _ if event != 0 => (request::SYSCALL, 0),
            // A signal of the program's.
            s => (request::SYSCALL, s),
        };
        // ESRCH: somebody killed it in the meantime.
        let _ = ptrace(resume, tid, 0, signal as usize);
        false
    }

    /// A thread is at the beginning or the end of a call; true if the window has closed.
    fn syscall_stop(&mut self, tid: i32, now: u64) -> bool {
        let mut info = SyscallInfo::default();
        let pointer = (&raw mut info).expose_provenance();
        if ptrace(request::GET_SYSCALL_INFO, tid, size_of_val(&info), pointer).is_err() {
            return false;
        }
        // The kernel has answered, so the thread has left its processor: all that it ran is counted.
        let tracee = self.tracees.get(&tid);
        let ran = tracee.and_then(|tracee| tracee.schedule.as_ref()?.ran(tracee.stops));
        match info.op {
            SyscallInfo::ENTRY => {
                let (number, argument) = (info.words[0], info.words[1] as u64);
                if number == libc::SYS_ioctl && self.recorder.is_own(tid, number, argument) {
                    self.marks += 1;
                    if self.marks == 2 {
                        self.recorder.set_window(self.start, now);
                        return true;
                    }
                }
                if number == libc::SYS_exit
                    && let Some(name) = threads::name(self.task.pid as u32, tid)
                {
                    self.recorder.name(tid, name);
                }
                // It goes on as of now: what looking took is not its time.
                let at = sys::now_ns();
                let event = Event::Enter { number, argument };
                self.recorder.event(tid, Moment { at, ran }, event);
            }
            SyscallInfo::EXIT => {
                let event = Event::Exit {
                    number: None,
                    result: info.words[0],
                };
                self.recorder.event(tid, Moment { at: now, ran }, event);
                if self.marks == 1 && self.start == u64::MAX && tid == self.task.caller {
                    self.start = sys::now_ns();
                    self.recorder.set_window(self.start, u64::MAX);
                }
            }
            _ => {}
        }
        false
    }
}

/// What was seen, one line each: `resolution NS`, `outside NS`, `unfollowed THREADS`,
/// `blocked TID NUMBER`, `name TID NAME`, `seen TID NUMBER CALLS CUT BELOW NS ADDED`, and `end`,
/// without which it is not complete.
fn text(recording: &Recording) -> String {
    let mut text = String::new();
    if let Some(ns) = recording.resolution_ns {
        let _ = writeln!(text, "resolution {ns}");
    }
    let _ = writeln!(text, "outside {}", recording.outside_ns);
    let _ = writeln!(text, "unfollowed {}", recording.unfollowed);
    for (tid, number) in &recording.blocked {
        let _ = writeln!(text, "blocked {tid} {number}");
    }
    for (tid, name) in &recording.names {
        // A name may be any bytes: one line, whatever is in it.
        let _ = writeln!(text, "name {tid} {}", name.replace(char::is_control, "?"));
    }
    for (tid, calls) in &recording.threads {
        for (number, seen) in calls {
            let Seen {
                calls,
                cut,
                below,
                ns,
                added,
            } = seen;
            let _ = writeln!(
                text,
                "seen {tid} {number} {calls} {cut} {below} {ns} {added}"
            );
        }
    }
    text.push_str("end\n");
    text
}

/// The reverse of [`text`]; `None` if it is cut off.
pub(super) fn parse(text: &str) -> Option<Recording> {
    let mut recording = Recording::default();
    for line in text.lines() {
        let (key, values) = line.split_once(' ').unwrap_or((line, ""));
        if key == "name" {
            let (tid, name) = values.split_once(' ')?;
            recording.names.insert(tid.parse().ok()?, name.to_owned());
            continue;
        }
        let values: Vec<i64> = values
            .split_ascii_whitespace()
            .map(|value| value.parse().ok())
            .collect::<Option<_>>()?;
        let unsigned = |i: usize| u64::try_from(*values.get(i)?).ok();
        match key {
            "resolution" => recording.resolution_ns = Some(unsigned(0)?),
            "outside" => recording.outside_ns = unsigned(0)?,
            "unfollowed" => recording.unfollowed = unsigned(0)?,
            "blocked" => {
                let tid = i32::try_from(*values.first()?).ok()?;
                recording.blocked.insert(tid, *values.get(1)?);
            }
            "seen" => {
                let tid = i32::try_from(*values.first()?).ok()?;
                let seen = Seen {
                    calls: unsigned(2)?,
                    cut: unsigned(3)?,
                    below: unsigned(4)?,
                    ns: unsigned(5)?,
                    added: unsigned(6)?,
                };
                let calls = recording.threads.entry(tid).or_default();
                calls.insert(values[1], seen);
            }
            "end" => return Some(recording),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_crosses_the_socket() {
        let seen = Seen {
            calls: 3,
            cut: 1,
            below: 2,
            ns: 12345,
            added: 678,
        };
        let recording = Recording {
            threads: BTreeMap::from([(17, BTreeMap::from([(0, seen), (-1, Seen::default())]))]),
            blocked: BTreeMap::from([(17, 202)]),
            names: BTreeMap::from([(17, "a  b ".to_owned()), (18, String::new())]),
            unfollowed: 2,
            resolution_ns: Some(9000),
            outside_ns: 17,
            ..Recording::default()
        };
        let sent = text(&recording);
        assert_eq!(parse(&sent), Some(recording));
        assert_eq!(parse(sent.strip_suffix("end\n").unwrap()), None);
        assert_eq!(parse(""), None);
        assert_eq!(parse("seen 1\nend\n"), None);
    }

    #[test]
    fn a_task_is_four_numbers() {
        let task = Task {
            pid: 1,
            caller: 2,
            socket: 3,
            plain_ns: 4,
        };
        assert_eq!(Task::parse(&task.text()), Some(task));
        assert_eq!(Task::parse("1 2 3"), None);
        assert_eq!(Task::parse("1 2 3 x"), None);
    }
}
