//! The tracer's own thread: it empties the rings while the brick runs, into sums.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use crate::tracer::observer::overhead::Moment;
use crate::tracer::observer::recorder::{Event, Recorder};
use crate::tracer::observer::ring::{Record, Ring, Tracepoints};
use crate::tracer::observer::sys;

/// The window as the drain sees it.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) start: AtomicU64,
    pub(super) end: AtomicU64,
}

/// What was read, and what the kernel said was lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    pub(super) read: u64,
    pub(super) lost: u64,
}

/// A thread that waits for its work: it has to be there before the events are, or it would inherit
/// them and observe itself.
#[derive(Debug)]
pub(super) struct Idle {
    pub(super) tid: i32,
    work: Sender<Drain>,
    thread: JoinHandle<Option<Drained>>,
}

pub(super) type Drained = (Recorder, Losses);

impl Idle {
    pub(super) fn spawn() -> io::Result<Idle> {
        let (work, works) = channel::<Drain>();
        let (hello, hellos) = channel();
        let thread = std::thread::Builder::new()
            .name("brick-tracer".into())
            .spawn(move || {
                hello.send(sys::gettid()).ok()?;
                Some(works.recv().ok()?.run())
            })?;
        let tid = hellos.recv().map_err(|_| io::ErrorKind::Other)?;
        Ok(Idle { tid, work, thread })
    }

    /// Gives it its work; its result is `None` if it could not be given.
    pub(super) fn start(self, drain: Drain) -> JoinHandle<Option<Drained>> {
        // Fails only if the thread is gone, and then so its result says.
        let _ = self.work.send(drain);
        self.thread
    }

    /// Sends it home.
    pub(super) fn dismiss(self) {
        drop(self.work);
        // It has done nothing that could fail.
        let _ = self.thread.join();
    }
}

/// What the tracer's thread works on.
#[derive(Debug)]
pub(super) struct Drain {
    pub(super) rings: Vec<Ring>,
    pub(super) fds: Vec<RawFd>,
    pub(super) tracepoints: Tracepoints,
    pub(super) recorder: Recorder,
    pub(super) window: Arc<Window>,
    pub(super) stop: Arc<OwnedFd>,
    pub(super) losses: Losses,
    pub(super) held: Held,
}

/// Events that are held back until none can come that was before them.
///
/// A thread's events are in as many rings as it has been on processors, and rings are read one after
/// the other. Whatever happened before one reading of all rings began is in them at the next.
#[derive(Debug, Default)]
pub(super) struct Held {
    events: Vec<(u64, i32, Event)>,
    /// When the last reading began.
    before: u64,
}

impl Held {
    fn push(&mut self, at: u64, tid: i32, event: Event) {
        self.events.push((at, tid, event));
    }

    /// After a reading that began at `now`: those that are complete, in order.
    fn take(&mut self, now: u64) -> impl Iterator<Item = (u64, i32, Event)> {
        // Stable: what a thread did within one tick of the clock stays in order.
        self.events.sort_by_key(|&(at, ..)| at);
        let before = std::mem::replace(&mut self.before, now);
        let complete = self.events.partition_point(|&(at, ..)| at < before);
        self.events.drain(..complete)
    }

    /// The rest, when nothing more can come.
    fn take_all(&mut self) -> impl Iterator<Item = (u64, i32, Event)> {
        self.before = u64::MAX;
        self.take(u64::MAX)
    }
}

impl Drain {
    fn run(mut self) -> Drained {
        let wait_for = |&fd: &RawFd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let stop = self.stop.as_raw_fd();
        let mut fds: Vec<libc::pollfd> =
            [&stop].into_iter().chain(&self.fds).map(wait_for).collect();
        loop {
            sys::poll(&mut fds);
            let stopped = fds[0].revents != 0;
            // A thread that ended hangs up: its ring has nothing more to wait for.
            for fd in &mut fds[1..] {
                if fd.revents & (libc::POLLHUP | libc::POLLERR) != 0 {
                    fd.fd = -1;
                }
            }
            let now = sys::now_ns();
            self.read();
            self.record(if stopped { None } else { Some(now) });
            if stopped {
                return (self.recorder, self.losses);
            }
        }
    }

    /// Everything that lies in the rings.
    fn read(&mut self) {
        let Drain {
            rings,
            tracepoints,
            recorder,
            losses,
            held,
            ..
        } = self;
        for ring in rings {
            ring.drain(|record| match tracepoints.read(record) {
                Record::Event { tid, at, event } => {
                    losses.read += 1;
                    held.push(at, tid, event);
                }
                Record::Name { tid, name } => recorder.name(tid, name),
                Record::Lost(n) => losses.lost += n,
                Record::Other => {}
            });
        }
    }

    /// Hands on what is complete after a reading that began `now`; all of it if that was the last.
    fn record(&mut self, now: Option<u64>) {
        let window = &self.window;
        let (start, end) = (window.start.load(Relaxed), window.end.load(Relaxed));
        self.recorder.set_window(start, end);
        let recorder = &mut self.recorder;
        let record = |(at, tid, event)| recorder.event(tid, Moment { at, ran: None }, event);
        match now {
            Some(now) => self.held.take(now).for_each(record),
            None => self.held.take_all().for_each(record),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that begins a call on one processor and ends it on another, whose ring is read first:
    /// the end is not handed on before the beginning.
    #[test]
    fn events_of_two_rings_come_in_order() {
        let enter = Event::Enter {
            number: 0,
            argument: 0,
        };
        let exit = Event::Exit {
            number: Some(0),
            result: 0,
        };
        let mut held = Held::default();
        let times = |events: Vec<(u64, i32, Event)>| -> Vec<u64> {
            events.into_iter().map(|(at, ..)| at).collect()
        };
        // Read from 100 on: the beginning at 90 was missed, the end at 110 is there.
        held.push(110, 1, exit);
        assert_eq!(times(held.take(100).collect()), [0_u64; 0]);
        // Read from 200 on.
        held.push(90, 1, enter);
        held.push(150, 1, enter);
        held.push(150, 1, exit);
        assert_eq!(times(held.take(200).collect()), [90]);
        assert_eq!(times(held.take(300).collect()), [110, 150, 150]);
        held.push(350, 2, enter);
        held.push(320, 1, enter);
        held.push(320, 1, exit);
        let rest: Vec<_> = held.take_all().collect();
        assert_eq!(rest, [(320, 1, enter), (320, 1, exit), (350, 2, enter)]);
    }
}
