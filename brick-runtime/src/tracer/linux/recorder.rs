//! System calls put together from their beginnings and ends, whoever saw those.

use std::collections::{BTreeMap, BTreeSet};

/// Calls of one number on one thread, as they were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Began while the window was open.
    pub(super) calls: u64,
    /// Under way when the window opened or closed.
    pub(super) cut: u64,
    /// Shorter than twice what observing one takes.
    pub(super) below: u64,
    /// Nanoseconds within the window.
    pub(super) ns: u64,
}

/// What was seen in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recording {
    /// By thread, by number.
    pub(super) threads: BTreeMap<i32, BTreeMap<i64, Seen>>,
    /// The call that a thread was in from the window's beginning to its end, by number.
    pub(super) blocked: BTreeMap<i32, i64>,
    /// What threads called themselves, as far as that was seen.
    pub(super) names: BTreeMap<i32, String>,
    /// Nanoseconds of a calibration call as seen: the median.
    pub(super) floor_ns: Option<u64>,
    /// Threads or processes that were started inside the window and not followed.
    pub(super) unfollowed: u64,
    /// Why threads were not followed; `None` if they were.
    pub(super) not_followed: Option<String>,
    /// Events that were lost.
    pub(super) lost: u64,
}

/// One end of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// It begins, with its number and first argument.
    Enter { number: i64, argument: u64 },
    /// It ends, with its number where that is known.
    Exit { number: Option<i64>, result: i64 },
}

#[derive(Clone, Copy, Debug)]
enum Open {
    /// The tracer's own.
    Own,
    Call {
        number: i64,
        since: u64,
    },
}

#[derive(Debug, Default)]
struct Thread {
    open: Option<Open>,
    /// Something of it was seen before.
    met: bool,
    /// The number of its last call.
    last: Option<i64>,
    seen: BTreeMap<i64, Seen>,
}

/// Pairs events into calls. Bounded by the numbers that there are, not by the calls made.
///
/// Time is that of one clock, in nanoseconds. Before the window opens, the caller's `getppid`
/// calls are its calibration: its events of that time come before all others of the window.
#[derive(Debug)]
pub(super) struct Recorder {
    caller: i32,
    /// The tracer's own files: calls on them are no part of the program.
    own_fds: Vec<i32>,
    threads: BTreeMap<i32, Thread>,
    calibration: Vec<u64>,
    floor_ns: Option<u64>,
    /// Threads and processes that were started inside the window.
    started: BTreeSet<i32>,
    /// The calls that threads were seen to be in before the window opened.
    was_in: BTreeMap<i32, i64>,
    names: BTreeMap<i32, String>,
    start: u64,
    end: u64,
}

impl Recorder {
    pub(super) fn new(caller: i32, own_fds: Vec<i32>) -> Recorder {
        Recorder {
            caller,
            own_fds,
            threads: BTreeMap::new(),
            calibration: Vec::new(),
            floor_ns: None,
            started: BTreeSet::new(),
            was_in: BTreeMap::new(),
            names: BTreeMap::new(),
            start: u64::MAX,
            end: u64::MAX,
        }
    }

    /// The window is from `start` to `end`; `u64::MAX` for what is not known yet.
    pub(super) fn set_window(&mut self, start: u64, end: u64) {
        (self.start, self.end) = (start, end);
    }

    /// Before the window opened, the thread was in the call `number`. If nothing is ever seen of it, it
    /// stayed there.
    pub(super) fn was_in(&mut self, tid: i32, number: i64) {
        self.was_in.insert(tid, number);
    }

    /// What a thread is called from now on.
    pub(super) fn name(&mut self, tid: i32, name: String) {
        self.names.insert(tid, name);
    }

    /// The caller's call on one of the tracer's own files.
    pub(super) fn is_own(&self, tid: i32, number: i64, argument: u64) -> bool {
        let on_file = [
            libc::SYS_ioctl,
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_recvfrom,
        ];
        tid == self.caller
            && on_file.contains(&number)
            && self.own_fds.iter().any(|&fd| fd as u64 == argument)
    }

    /// Takes an event of a thread at the time `at`.
    pub(super) fn event(&mut self, tid: i32, at: u64, event: Event) {
        match event {
            Event::Enter { number, argument } => {
                let own = self.is_own(tid, number, argument);
                let before = self.was_in.get(&tid).copied();
                let thread = self.threads.entry(tid).or_default();
                thread.met = true;
                let number = match number {
                    // Goes on with what a signal, or the tracer, called it away from.
                    libc::SYS_restart_syscall => thread.last.or(before).unwrap_or(number),
                    number => number,
                };
                thread.last = Some(number);
                thread.open = match own {
                    true => Some(Open::Own),
                    // It never comes back: there is no time to it, and strace counts none either.
                    false if number == libc::SYS_exit => None,
                    false => Some(Open::Call { number, since: at }),
                };
            }
            Event::Exit { number, result } => {
                let thread = self.threads.entry(tid).or_default();
                let first = !std::mem::replace(&mut thread.met, true);
                match thread.open.take() {
                    Some(Open::Own) => {}
                    Some(Open::Call { number, since }) => {
                        self.call(tid, number, since, at, result);
                    }
                    // It was in there before anybody looked, unless this is how it was born.
                    None if first => {
                        if let Some(number) = number
                            && tid != self.caller
                            && !(starts(number) && result == 0)
                        {
                            self.call(tid, number, 0, at, 0);
                        }
                    }
                    None => {}
                }
            }
        }
    }

    /// A call from `since` to `until`.
    fn call(&mut self, tid: i32, number: i64, since: u64, until: u64, result: i64) {
        if until < self.start {
            if tid == self.caller && number == libc::SYS_getppid {
                self.calibration.push(until.saturating_sub(since));
            }
            return;
        }
        if since >= self.end {
            return;
        }
        let within = since >= self.start && until <= self.end;
        if self.floor_ns.is_none() {
            self.floor_ns = median(&mut self.calibration);
        }
        if within && starts(number) && result > 0 {
            self.started.extend(i32::try_from(result));
        }
        let ns = until.min(self.end).saturating_sub(since.max(self.start));
        let short = self.floor_ns.is_some_and(|floor| ns < 2 * floor);
        let thread = self.threads.entry(tid).or_default();
        let seen = thread.seen.entry(number).or_default();
        seen.calls += u64::from(since >= self.start);
        seen.cut += u64::from(!within);
        seen.below += u64::from(within && short);
        seen.ns += ns;
    }

    /// Everything up to the window's end. `followed` are the threads that were being followed then:
    /// one that has not yet made a call is no thread that was missed.
    pub(super) fn finish(mut self, followed: &[i32]) -> Recording {
        for (&tid, &number) in &self.was_in {
            let thread = self.threads.entry(tid).or_default();
            if !thread.met {
                thread.open = Some(Open::Call { number, since: 0 });
            }
        }
        let end = self.end;
        let open: Vec<(i32, Open)> = self
            .threads
            .iter_mut()
            .filter_map(|(&tid, thread)| Some((tid, thread.open.take()?)))
            .collect();
        let mut blocked = BTreeMap::new();
        for (tid, open) in open {
            if let Open::Call { number, since } = open {
                if since < self.start {
                    blocked.insert(tid, number);
                }
                // Not over yet: past the end, by as little as may be.
                self.call(tid, number, since, end.saturating_add(1), 0);
            }
        }
        let missed = |tid: &&i32| !self.threads.contains_key(*tid) && !followed.contains(*tid);
        let unfollowed = self.started.iter().filter(missed).count() as u64;
        let threads = self.threads.into_iter().map(|(tid, t)| (tid, t.seen));
        let floor_ns = self.floor_ns.or_else(|| median(&mut self.calibration));
        Recording {
            threads: threads.filter(|(_, seen)| !seen.is_empty()).collect(),
            blocked,
            names: self.names,
            floor_ns,
            unfollowed,
            not_followed: None,
            lost: 0,
        }
    }
}

/// A call that makes a thread or a process, and returns in both.
fn starts(number: i64) -> bool {
    #[cfg(target_arch = "x86_64")]
    if [libc::SYS_fork, libc::SYS_vfork].contains(&number) {
        return true;
    }
    [libc::SYS_clone, libc::SYS_clone3].contains(&number)
}

fn median(samples: &mut [u64]) -> Option<u64> {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: i64 = libc::SYS_read;
    const FUTEX: i64 = libc::SYS_futex;

    fn enter(number: i64) -> Event {
        Event::Enter {
            number,
            argument: 0,
        }
    }
    fn exit(number: i64) -> Event {
        Event::Exit {
            number: Some(number),
            result: 0,
        }
    }

    /// By hand: the caller is 1, the window is 1000 to 2000, calibration calls take 10.
    fn recorder() -> Recorder {
        let mut r = Recorder::new(1, vec![7]);
        for at in [100, 200, 300] {
            r.event(1, at, enter(libc::SYS_getppid));
            r.event(1, at + 10, exit(libc::SYS_getppid));
        }
        r.event(2, 500, enter(FUTEX));
        r.set_window(1000, u64::MAX);
        r
    }

    #[test]
    fn calls_inside_across_and_outside_the_window() {
        let mut r = recorder();
        r.event(1, 1100, enter(READ));
        r.event(1, 1150, exit(READ));
        r.event(1, 1200, enter(READ));
        r.event(1, 1219, exit(READ));
        r.event(2, 1300, exit(FUTEX));
        r.event(3, 1400, exit(READ));
        r.event(2, 1900, enter(FUTEX));
        r.set_window(1000, 2000);
        r.event(1, 2100, enter(READ));
        r.event(1, 2150, exit(READ));
        let got = r.finish(&[]);
        let seen = |calls, cut, below, ns| Seen {
            calls,
            cut,
            below,
            ns,
        };
        assert_eq!(got.threads[&1], BTreeMap::from([(READ, seen(2, 0, 1, 69))]));
        assert_eq!(
            got.threads[&2],
            BTreeMap::from([(FUTEX, seen(1, 2, 0, 300 + 100))])
        );
        assert_eq!(
            got.threads[&3],
            BTreeMap::from([(READ, seen(0, 1, 0, 400))])
        );
        assert_eq!(got.floor_ns, Some(10));
    }

    #[test]
    fn the_tracers_own_calls_are_nobodys() {
        let mut r = recorder();
        let own = |number| Event::Enter {
            number,
            argument: 7,
        };
        r.event(1, 1100, own(libc::SYS_ioctl));
        r.event(1, 1200, exit(libc::SYS_ioctl));
        // The same number of file on another thread, or for another purpose, is the program's.
        r.event(2, 1250, own(libc::SYS_ioctl));
        r.event(2, 1260, exit(libc::SYS_ioctl));
        r.event(1, 1300, own(libc::SYS_mmap));
        r.event(1, 1400, exit(libc::SYS_mmap));
        r.set_window(1000, 2000);
        let got = r.finish(&[]);
        assert_eq!(
            got.threads[&1].keys().collect::<Vec<_>>(),
            [&libc::SYS_mmap]
        );
        assert!(got.threads[&2].contains_key(&libc::SYS_ioctl));
    }

    fn started(r: &mut Recorder, tid: i64) {
        r.event(1, 1100, enter(libc::SYS_clone3));
        let child = Event::Exit {
            number: Some(libc::SYS_clone3),
            result: tid,
        };
        r.event(1, 1200, child);
    }

    #[test]
    fn a_started_thread_that_was_not_followed_is_noticed() {
        let mut r = recorder();
        started(&mut r, 4711);
        r.set_window(1000, 2000);
        assert_eq!(r.finish(&[]).unfollowed, 1);
        // One that is followed, but has not yet got to do anything.
        let mut r = recorder();
        started(&mut r, 4711);
        r.set_window(1000, 2000);
        assert_eq!(r.finish(&[1, 4711]).unfollowed, 0);
    }

    /// Its first event is the end of the call that made it, and its last call never ends.
    #[test]
    fn a_followed_thread_from_birth_to_exit() {
        let mut r = recorder();
        started(&mut r, 4711);
        r.event(4711, 1210, exit(libc::SYS_clone3));
        r.event(4711, 1220, enter(READ));
        r.event(4711, 1260, exit(READ));
        r.event(4711, 1300, enter(libc::SYS_exit));
        r.set_window(1000, 2000);
        let got = r.finish(&[]);
        let read = Seen {
            calls: 1,
            ns: 40,
            ..Seen::default()
        };
        assert_eq!(got.threads[&4711], BTreeMap::from([(READ, read)]));
        assert_eq!(got.unfollowed, 0);
    }

    /// 2 began to wait before the window and was seen to; of 3 no event was ever seen; 4 came out.
    #[test]
    fn who_waits_all_the_time() {
        let mut r = recorder();
        for tid in [2, 3, 4] {
            r.was_in(tid, FUTEX);
        }
        r.event(4, 1500, exit(FUTEX));
        r.set_window(1000, 2000);
        let got = r.finish(&[]);
        assert_eq!(got.blocked, BTreeMap::from([(2, FUTEX), (3, FUTEX)]));
        let waited = |ns| Seen {
            cut: 1,
            ns,
            ..Seen::default()
        };
        for (tid, ns) in [(2, 1000), (3, 1000), (4, 500)] {
            assert_eq!(got.threads[&tid], BTreeMap::from([(FUTEX, waited(ns))]));
        }
    }

    /// A sleep that the tracer interrupted goes on under another number.
    #[test]
    fn a_restarted_call_is_what_it_was() {
        let restart = libc::SYS_restart_syscall;
        let mut r = recorder();
        r.was_in(3, libc::SYS_nanosleep);
        r.event(3, 900, enter(restart));
        r.event(3, 1300, exit(restart));
        r.event(2, 1100, exit(FUTEX));
        r.event(2, 1200, enter(restart));
        r.set_window(1000, 2000);
        let got = r.finish(&[]);
        assert_eq!(
            got.threads[&3].keys().collect::<Vec<_>>(),
            [&libc::SYS_nanosleep]
        );
        assert_eq!(got.threads[&2].keys().collect::<Vec<_>>(), [&FUTEX]);
        assert_eq!(got.threads[&2][&FUTEX].ns, 100 + 800);
    }
}
