//! System calls put together from their beginnings and ends, whoever saw those.

use std::collections::{BTreeMap, BTreeSet};

use super::gaps::Gaps;
use super::overhead::{Added, Moment, Overhead};

/// Calls of one number on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Began while the window was open.
    pub(super) calls: u64,
    /// Under way when the window opened or closed.
    pub(super) cut: u64,
    /// Shorter than what observing added to it and was not measured.
    pub(super) below: u64,
    /// Nanoseconds within the window, without what observing added.
    pub(super) ns: u64,
    /// Nanoseconds that observing added.
    pub(super) added: u64,
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
    /// Nanoseconds that observing added to a call of the calibration; `None` if none was seen.
    pub(super) resolution_ns: Option<u64>,
    /// Nanoseconds that observing added to the caller's time outside of calls.
    pub(super) outside_ns: u64,
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
        since: Moment,
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
    /// Nanoseconds of a calibration call when nobody observes.
    plain_ns: u64,
    threads: BTreeMap<i32, Thread>,
    /// What observing adds to a call.
    inside: Overhead,
    /// The caller's time between two calls.
    gaps: Gaps,
    /// Threads and processes that were started inside the window.
    started: BTreeSet<i32>,
    /// The calls that threads were seen to be in before the window opened.
    was_in: BTreeMap<i32, i64>,
    names: BTreeMap<i32, String>,
    start: u64,
    end: u64,
}

impl Recorder {
    pub(super) fn new(caller: i32, own_fds: Vec<i32>, plain_ns: u64) -> Recorder {
        Recorder {
            caller,
            own_fds,
            plain_ns,
            threads: BTreeMap::new(),
            inside: Overhead::default(),
            gaps: Gaps::default(),
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

    /// Takes an event of a thread at `moment`.
    pub(super) fn event(&mut self, tid: i32, moment: Moment, event: Event) {
        match event {
            Event::Enter { number, argument } => {
                let own = self.is_own(tid, number, argument);
                if tid == self.caller {
                    match own {
                        true => self.gaps.forget(),
                        false => self.gaps.end(moment, number, self.start..=self.end),
                    }
                }
                let before = self.was_in.get(&tid).copied();
                let thread = self.threads.entry(tid).or_default();
                let first = !std::mem::replace(&mut thread.met, true);
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
                    // Back in the call that the tracer called it away from, however late that was.
                    false if first && before == Some(number) => Some(Open::Call {
                        number,
                        since: LONG_AGO,
                    }),
                    false => Some(Open::Call {
                        number,
                        since: moment,
                    }),
                };
            }
            Event::Exit { number, result } => {
                let thread = self.threads.entry(tid).or_default();
                let first = !std::mem::replace(&mut thread.met, true);
                match thread.open.take() {
                    Some(Open::Own) => {}
                    Some(Open::Call { number, since }) => {
                        self.call(tid, number, since, moment, result);
                        if tid == self.caller {
                            self.gaps.begin(moment, number);
                        }
                    }
                    // It was in there before anybody looked, unless this is how it was born.
                    None if first => {
                        if let Some(number) = number
                            && tid != self.caller
                            && !(starts(number) && result == 0)
                        {
                            self.call(tid, number, LONG_AGO, moment, 0);
                        }
                    }
                    None => {}
                }
            }
        }
    }

    /// A call from `since` to `until`.
    fn call(&mut self, tid: i32, number: i64, since: Moment, until: Moment, result: i64) {
        if until.at < self.start {
            if tid == self.caller && number == libc::SYS_getppid {
                self.inside.calibrate(since, until, self.plain_ns);
                let between = until.at.saturating_sub(since.at);
                self.gaps.around_ns = self.plain_ns.saturating_sub(between);
            }
            return;
        }
        if since.at >= self.end {
            return;
        }
        let within = since.at >= self.start && until.at <= self.end;
        if within && starts(number) && result > 0 {
            self.started.extend(i32::try_from(result));
        }
        let ns = until
            .at
            .min(self.end)
            .saturating_sub(since.at.max(self.start));
        // Of one that is cut, the end that nobody saw had no stop. What the other had is left in it.
        let added = match within {
            true => self.inside.of(since, until),
            false => Added { ns: 0, guessed: 0 },
        };
        let own = ns - added.ns;
        let thread = self.threads.entry(tid).or_default();
        let seen = thread.seen.entry(number).or_default();
        seen.calls += u64::from(since.at >= self.start);
        seen.cut += u64::from(!within);
        seen.below += u64::from(own < added.guessed);
        seen.ns += own;
        seen.added += added.ns;
    }

    /// Everything up to the window's end. `followed` are the threads that were being followed then:
    /// one that has not yet made a call is no thread that was missed.
    pub(super) fn finish(mut self, followed: &[i32]) -> Recording {
        for (&tid, &number) in &self.was_in {
            let thread = self.threads.entry(tid).or_default();
            if !thread.met {
                let since = LONG_AGO;
                thread.open = Some(Open::Call { number, since });
            }
        }
        // Not over yet: past the end, by as little as may be.
        let end = Moment {
            at: self.end.saturating_add(1),
            ran: None,
        };
        let open: Vec<(i32, Open)> = self
            .threads
            .iter_mut()
            .filter_map(|(&tid, thread)| Some((tid, thread.open.take()?)))
            .collect();
        let mut blocked = BTreeMap::new();
        for (tid, open) in open {
            if let Open::Call { number, since } = open {
                if since.at < self.start {
                    blocked.insert(tid, number);
                }
                self.call(tid, number, since, end, 0);
            }
        }
        let missed = |tid: &&i32| !self.threads.contains_key(*tid) && !followed.contains(*tid);
        let unfollowed = self.started.iter().filter(missed).count() as u64;
        let caller = self.threads.get(&self.caller);
        let calls = caller.map_or(0, |thread| thread.seen.values().map(|s| s.calls).sum());
        let outside_ns = self.gaps.added_ns(calls);
        let threads = self.threads.into_iter().map(|(tid, t)| (tid, t.seen));
        Recording {
            threads: threads.filter(|(_, seen)| !seen.is_empty()).collect(),
            blocked,
            names: self.names,
            resolution_ns: self.inside.calibrated(),
            outside_ns,
            unfollowed,
            not_followed: None,
            lost: 0,
        }
    }
}

/// When a call began that nobody saw beginning.
const LONG_AGO: Moment = Moment { at: 0, ran: None };

/// A call that makes a thread or a process, and returns in both.
fn starts(number: i64) -> bool {
    #[cfg(target_arch = "x86_64")]
    if [libc::SYS_fork, libc::SYS_vfork].contains(&number) {
        return true;
    }
    [libc::SYS_clone, libc::SYS_clone3].contains(&number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracer::observer::overhead::Ran;

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

    fn at(at: u64) -> Moment {
        Moment { at, ran: None }
    }

    /// By hand: the caller is 1, the window is 1000 to 2000. A calibration call is seen as 12, of which
    /// 10 are added; between two lie 5.
    fn recorder() -> Recorder {
        let mut r = Recorder::new(1, vec![7], 2);
        for since in [100, 117, 134] {
            r.event(1, at(since), enter(libc::SYS_getppid));
            r.event(1, at(since + 12), exit(libc::SYS_getppid));
        }
        r.event(2, at(500), enter(FUTEX));
        r.set_window(1000, u64::MAX);
        r
    }

    #[test]
    fn calls_inside_across_and_outside_the_window() {
        let mut r = recorder();
        r.event(1, at(1100), enter(READ));
        r.event(1, at(1150), exit(READ));
        r.event(1, at(1200), enter(READ));
        r.event(1, at(1219), exit(READ));
        r.event(2, at(1300), exit(FUTEX));
        r.event(3, at(1400), exit(READ));
        r.event(2, at(1900), enter(FUTEX));
        r.set_window(1000, 2000);
        r.event(1, at(2100), enter(READ));
        r.event(1, at(2150), exit(READ));
        let got = r.finish(&[]);
        let seen = |calls, cut, below, ns, added| Seen {
            calls,
            cut,
            below,
            ns,
            added,
        };
        let of = |number, seen| BTreeMap::from([(number, seen)]);
        assert_eq!(got.threads[&1], of(READ, seen(2, 0, 1, 40 + 9, 20)));
        assert_eq!(got.threads[&2], of(FUTEX, seen(1, 2, 0, 300 + 100, 0)));
        assert_eq!(got.threads[&3], of(READ, seen(0, 1, 0, 400, 0)));
        assert_eq!(got.resolution_ns, Some(10));
        // Between its two calls, and half as much before the first and after the last.
        assert_eq!(got.outside_ns, 5 + 5);
    }

    /// By hand: a calibration call takes 20, of which 12 are seen between its ends: 8 of the 15 between
    /// two are the call's, and 7 added.
    #[test]
    fn more_is_not_added_than_a_call_takes_longer() {
        let mut r = Recorder::new(1, vec![7], 20);
        for since in [100, 127, 154] {
            r.event(1, at(since), enter(libc::SYS_getppid));
            r.event(1, at(since + 12), exit(libc::SYS_getppid));
        }
        r.set_window(1000, 2000);
        r.event(1, at(1100), enter(READ));
        r.event(1, at(1150), exit(READ));
        let got = r.finish(&[]);
        assert_eq!((got.threads[&1][&READ].ns, got.outside_ns), (50, 7));
        assert_eq!(got.resolution_ns, Some(0));
    }

    /// By hand: a call with a longer stop than the calibration's had, a gap of the same kind, and a
    /// call that slept, to which is added what was added to one of them at least.
    #[test]
    fn what_was_measured_goes_before_what_was_calibrated() {
        let ran = |at, ns, breaks| Moment {
            at,
            ran: Some(Ran {
                ns,
                waited_ns: 0,
                breaks,
            }),
        };
        let mut r = Recorder::new(1, vec![7], 2);
        for n in 0..3 {
            let (at, ns) = (100 + 17 * n, 8 * n);
            r.event(1, ran(at, ns, 0), enter(libc::SYS_getppid));
            r.event(1, ran(at + 12, ns + 5, 0), exit(libc::SYS_getppid));
        }
        r.set_window(1000, 2000);
        r.event(1, ran(1100, 100, 9), enter(READ));
        r.event(1, ran(1200, 140, 9), exit(READ));
        r.event(1, ran(1300, 160, 9), enter(FUTEX));
        r.event(1, ran(1900, 180, 10), exit(FUTEX));
        let got = r.finish(&[]);
        let seen = |ns, added| Seen {
            calls: 1,
            ns,
            added,
            ..Seen::default()
        };
        // 60 off the processor, and 3 of the 40 on it: the rest is known, however long the stop was.
        assert_eq!(got.threads[&1][&READ], seen(37, 63));
        assert_eq!(got.threads[&1][&FUTEX], seen(590, 10));
        // Between the two 80 and 3, and before and after as much as in the calibration.
        assert_eq!(got.outside_ns, 83 + 5);
    }

    #[test]
    fn the_tracers_own_calls_are_nobodys() {
        let mut r = recorder();
        let own = |number| Event::Enter {
            number,
            argument: 7,
        };
        r.event(1, at(1100), own(libc::SYS_ioctl));
        r.event(1, at(1200), exit(libc::SYS_ioctl));
        // The same number of file on another thread, or for another purpose, is the program's.
        r.event(2, at(1250), own(libc::SYS_ioctl));
        r.event(2, at(1260), exit(libc::SYS_ioctl));
        r.event(1, at(1300), own(libc::SYS_mmap));
        r.event(1, at(1400), exit(libc::SYS_mmap));
        r.set_window(1000, 2000);
        let got = r.finish(&[]);
        assert_eq!(
            got.threads[&1].keys().collect::<Vec<_>>(),
            [&libc::SYS_mmap]
        );
        assert!(got.threads[&2].contains_key(&libc::SYS_ioctl));
    }

    fn started(r: &mut Recorder, tid: i64) {
        r.event(1, at(1100), enter(libc::SYS_clone3));
        let child = Event::Exit {
            number: Some(libc::SYS_clone3),
            result: tid,
        };
        r.event(1, at(1200), child);
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
        r.event(4711, at(1210), exit(libc::SYS_clone3));
        r.event(4711, at(1220), enter(READ));
        r.event(4711, at(1260), exit(READ));
        r.event(4711, at(1300), enter(libc::SYS_exit));
        r.set_window(1000, 2000);
        let got = r.finish(&[]);
        let read = Seen {
            calls: 1,
            ns: 30,
            added: 10,
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
        r.event(4, at(1500), exit(FUTEX));
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

    /// The tracer called 3, 4 and 6 away from a call; the window was open before they came back. 4 came
    /// back to another call, 6 came out of its own and went in again. Of 5 nothing was known.
    #[test]
    fn who_is_late_to_wait_again_has_waited_all_the_time() {
        let mut r = recorder();
        for (tid, number) in [(3, FUTEX), (4, READ), (6, FUTEX)] {
            r.was_in(tid, number);
        }
        for tid in [3, 4, 5, 6] {
            r.event(tid, at(1100), enter(FUTEX));
        }
        r.event(6, at(1300), exit(FUTEX));
        r.event(6, at(1400), enter(FUTEX));
        r.set_window(1000, 2000);
        let got = r.finish(&[]);
        assert_eq!(got.blocked, BTreeMap::from([(2, FUTEX), (3, FUTEX)]));
        let seen = [3, 4, 5, 6].map(|tid| got.threads[&tid][&FUTEX]);
        let seen = seen.map(|seen| (seen.calls, seen.cut, seen.ns));
        assert_eq!(
            seen,
            [(0, 1, 1000), (1, 1, 900), (1, 1, 900), (1, 2, 300 + 600)]
        );
    }

    /// A sleep that the tracer interrupted goes on under another number.
    #[test]
    fn a_restarted_call_is_what_it_was() {
        let restart = libc::SYS_restart_syscall;
        let mut r = recorder();
        r.was_in(3, libc::SYS_nanosleep);
        r.event(3, at(900), enter(restart));
        r.event(3, at(1300), exit(restart));
        r.event(2, at(1100), exit(FUTEX));
        r.event(2, at(1200), enter(restart));
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
