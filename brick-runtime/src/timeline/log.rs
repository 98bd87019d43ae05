//! What one thread writes down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{EventKind, Failure, Outcome, Thread, Work};
use crate::registry::BrickInfo;

/// Events that a thread sets memory aside for at a time.
const CHUNK: usize = if cfg!(miri) { 16 } else { 1024 };

/// An event as it is written down: times in ticks.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) kind: EventKind,
    pub(super) start: u64,
    /// `None` while it is open.
    pub(super) end: Option<u64>,
    pub(super) panicked: bool,
    pub(super) failure: Option<Arc<Failure>>,
    /// Its parent in the same log.
    pub(super) parent: Option<usize>,
    pub(super) layer: Option<u64>,
    pub(super) position: Option<u64>,
    pub(super) call: Option<u64>,
    pub(super) work: Work,
}

impl Raw {
    pub(super) fn outcome(&self) -> Outcome {
        match (self.end, self.panicked) {
            (None, _) => Outcome::Open,
            (_, true) => Outcome::Panicked,
            _ => Outcome::Ended,
        }
    }
}

/// How many events may still be set memory aside for.
#[derive(Debug)]
pub(super) struct Room(AtomicUsize);

impl Room {
    pub(super) fn new(events: usize) -> Room {
        Room(AtomicUsize::new(events))
    }

    /// Takes up to a chunk; 0 where nothing is left.
    fn take(&self) -> usize {
        let take = |left: usize| left - left.min(CHUNK);
        match self
            .0
            .fetch_update(Relaxed, Relaxed, |left| Some(take(left)))
        {
            Ok(left) => left.min(CHUNK),
            Err(_) => unreachable!("`take` always gives a value"),
        }
    }
}

/// What one thread writes down.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) thread: Thread,
    /// In chunks: a vector that grows would copy what is in it in the middle of somebody's call.
    pub(super) chunks: Vec<Vec<Raw>>,
    len: usize,
    /// The events that are open, the innermost last.
    open: Vec<usize>,
    /// A violation that may be unwinding: why that ends which ends by a panic now.
    unwinding: Option<Arc<Failure>>,
    pub(super) dropped: u64,
    /// The recording has stopped.
    closed: bool,
}

impl Log {
    pub(super) fn new(thread: Thread) -> Log {
        Log {
            thread,
            chunks: Vec::new(),
            len: 0,
            open: Vec::new(),
            unwinding: None,
            dropped: 0,
            closed: false,
        }
    }

    /// Takes everything out, for good: what still runs finds the log closed.
    pub(super) fn close(&mut self) -> Log {
        let mut all = std::mem::replace(self, Log::new(Thread::default()));
        self.closed = true;
        all.open.clear();
        all
    }

    /// Appends an event with the parent that is open now, if there is room.
    fn append(&mut self, room: &Room, mut raw: Raw) -> Option<usize> {
        if self.closed {
            return None;
        }
        if self.chunks.last().is_none_or(|c| c.len() == c.capacity()) {
            match room.take() {
                0 => {
                    self.dropped += 1;
                    return None;
                }
                events => self.chunks.push(Vec::with_capacity(events)),
            }
        }
        raw.parent = self.open.last().copied();
        self.chunks.last_mut()?.push(raw);
        self.len += 1;
        Some(self.len - 1)
    }

    /// An event that begins.
    pub(super) fn begin(&mut self, room: &Room, raw: Raw) -> Option<usize> {
        let index = self.append(room, raw)?;
        self.open.push(index);
        Some(index)
    }

    /// An event that is over already.
    pub(super) fn complete(&mut self, room: &Room, raw: Raw) {
        self.append(room, raw);
    }

    /// The event at `index`. Chunks but the last ones may be shorter than [`CHUNK`] where room ran
    /// out, and after such a one there is none.
    pub(super) fn event(&mut self, index: usize) -> Option<&mut Raw> {
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// An event ended at `now`; by a panic, it failed for the reason that unwinds.
    pub(super) fn conclude(
        &mut self,
        (since, now): (u64, u64),
        panicked: bool,
        wanted: impl Fn(&Raw) -> bool,
    ) -> Option<&mut Raw> {
        if !std::thread::panicking() {
            // Whatever it was, it is over.
            self.unwinding = None;
        }
        let why = self.unwinding.clone().filter(|_| panicked);
        let event = self.end(since, wanted)?;
        event.end = Some(now);
        event.panicked = panicked;
        event.failure = event.failure.take().or(why);
        Some(event)
    }

    /// All that is open failed, and so did the call that came last if it is one of the failure's brick.
    pub(super) fn fail(&mut self, failure: &Arc<Failure>) {
        if let Some(brick) = failure.brick {
            self.fail_last_call(brick, failure);
        }
        for depth in 0..self.open.len() {
            let index = self.open[depth];
            if let Some(event) = self.event(index) {
                event.failure.get_or_insert_with(|| Arc::clone(failure));
            }
        }
    }

    /// The violation of a call that just ended, or (`requires`) did not begin. Who it is in may go on.
    pub(super) fn violated(&mut self, failure: Arc<Failure>, ended: bool) {
        if let Some(brick) = failure.brick.filter(|_| ended) {
            self.fail_last_call(brick, &failure);
        }
        self.unwinding = Some(failure);
    }

    /// Of what was begun last, checks and folds aside: a call of `brick`.
    fn fail_last_call(&mut self, brick: &'static BrickInfo, failure: &Arc<Failure>) {
        for index in (0..self.len).rev() {
            let Some(event) = self.event(index) else {
                return;
            };
            match event.kind {
                EventKind::Check(_) | EventKind::Fold => {}
                EventKind::Brick(info) | EventKind::Poll(info) if std::ptr::eq(info, brick) => {
                    event.failure.get_or_insert_with(|| Arc::clone(failure));
                    return;
                }
                _ => return,
            }
        }
    }

    /// The innermost open event that `wanted` accepts, which is then no longer open. Only
    /// those that began at `since` or later are looked at.
    ///
    /// What was opened in it and is still open stays: a scope's guard may be returned from the call
    /// that it was made in.
    fn end(&mut self, since: u64, wanted: impl Fn(&Raw) -> bool) -> Option<&mut Raw> {
        for depth in (0..self.open.len()).rev() {
            let index = self.open[depth];
            let event = self.event(index)?;
            if wanted(event) {
                self.open.remove(depth);
                return self.event(index);
            }
            if event.start < since {
                return None;
            }
        }
        None
    }
}
