//! What one thread writes down.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::{EventKind, Failure, Outcome, Thread, Work};
use crate::registry::BrickInfo;

/// Events that a thread sets memory aside for at a time: some 60 KB, which the heap has again when they are
/// taken away, where more would be mapped and unmapped.
const CHUNK: usize = if cfg!(miri) { 16 } else { 256 };

/// An event of any thread: which log, and the how manieth that was begun in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct EventId {
    pub(crate) log: usize,
    pub(crate) index: usize,
}

/// An event as it is written down: times in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Raw {
    pub(crate) kind: EventKind,
    /// The how manieth of its log.
    pub(crate) index: usize,
    pub(crate) start: u64,
    /// `None` while it is open.
    pub(crate) end: Option<u64>,
    pub(crate) panicked: bool,
    pub(crate) failure: Option<Arc<Failure>>,
    /// Its parent in the same log.
    pub(crate) parent: Option<usize>,
    /// The event that handed the work over, where that is not its parent.
    pub(crate) launched_by: Option<EventId>,
    pub(crate) layer: Option<u64>,
    pub(crate) position: Option<u64>,
    pub(crate) call: Option<u64>,
    pub(crate) work: Work,
}

impl Raw {
    /// One that begins. Its log says the rest.
    pub(super) fn new(kind: EventKind, (layer, position): (Option<u64>, Option<u64>)) -> Raw {
        Raw {
            kind,
            index: 0,
            start: 0,
            end: None,
            panicked: false,
            failure: None,
            parent: None,
            launched_by: None,
            layer,
            position,
            call: None,
            work: Work::default(),
        }
    }

    pub(crate) fn outcome(&self) -> Outcome {
        match (self.end, self.panicked) {
            (None, _) => Outcome::Open,
            (_, true) => Outcome::Panicked,
            _ => Outcome::Ended,
        }
    }
}

/// How many events may still be set memory aside for.
#[derive(Debug)]
pub(crate) struct Room(AtomicUsize);

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

    /// The memory of `events` is free again.
    pub(crate) fn give_back(&self, events: usize) {
        self.0.fetch_add(events, Relaxed);
    }
}

/// What one thread writes down: what is open, and what has ended and nobody has taken away yet.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) thread: Thread,
    /// In the order of their ends, in chunks: a vector that grows would copy what is in it in the
    /// middle of somebody's call.
    ended: Vec<Vec<Raw>>,
    /// In the order of their begin, the innermost last.
    open: Vec<Raw>,
    /// Events that were begun.
    begun: usize,
    /// The last of them that is no check and no fold.
    last: usize,
    /// How much was begun and ended when somebody took what had ended.
    taken_at: (usize, usize),
    /// A violation that may be unwinding: why that ends which ends by a panic now.
    unwinding: Option<Arc<Failure>>,
    /// Events that there is still room for, of what was taken of [`Room`].
    left: usize,
    pub(crate) dropped: u64,
    /// The recording has stopped.
    closed: bool,
}

impl Log {
    pub(super) fn new(thread: Thread) -> Log {
        Log {
            thread,
            ended: Vec::new(),
            open: Vec::new(),
            begun: 0,
            last: 0,
            taken_at: (0, 0),
            unwinding: None,
            left: 0,
            dropped: 0,
            closed: false,
        }
    }

    /// Takes out what has ended. The call that was begun last stays, and what ended after it, until
    /// nothing has happened between two looks: only then is it settled what a fold is in, and whether
    /// the call failed. The tick at which the first ended that stays, if any does.
    pub(super) fn take_ended(&mut self) -> (Vec<Vec<Raw>>, Option<u64>) {
        let mut taken = std::mem::take(&mut self.ended);
        let ended: usize = taken.iter().map(Vec::len).sum();
        if self.taken_at != (self.begun, ended) || self.checks() {
            let unsettled = |raw: &Raw| raw.index >= self.last;
            // Behind it came its checks, and what it is in.
            let all = taken.iter().rev().flat_map(|chunk| chunk.iter().rev());
            let tail = (1..).zip(all.take(CHUNK));
            let mut left = tail
                .filter(|(_, raw)| unsettled(raw))
                .last()
                .map_or(0, |(n, _)| n);
            let mut tail = Vec::new();
            while left > 0
                && let Some(chunk) = taken.last_mut()
            {
                let from = chunk.len() - left.min(chunk.len());
                left -= chunk.len() - from;
                tail.push(chunk.split_off(from));
                if chunk.is_empty() {
                    taken.pop();
                }
            }
            tail.into_iter()
                .rev()
                .flatten()
                .for_each(|raw| self.keep(raw));
        }
        let kept = || self.ended.iter().flatten();
        self.taken_at = (self.begun, kept().count());
        let first = kept().next().and_then(|raw| raw.end);
        (taken, first)
    }

    /// Whether the results of a call are being looked at.
    fn checks(&self) -> bool {
        let innermost = self.open.last();
        innermost.is_some_and(|raw| matches!(raw.kind, EventKind::Check(_)))
    }

    /// Takes everything out, for good: what still runs finds the log closed.
    pub(super) fn close(&mut self) -> Closed {
        self.closed = true;
        Closed {
            thread: std::mem::take(&mut self.thread),
            ended: std::mem::take(&mut self.ended),
            open: std::mem::take(&mut self.open),
            dropped: std::mem::take(&mut self.dropped),
        }
    }

    /// Numbers an event and gives it the parent that is open now, if there is room.
    fn number(&mut self, room: &Room, raw: &mut Raw) -> Option<()> {
        if self.closed {
            return None;
        }
        if self.left == 0 {
            self.left = room.take();
        }
        if self.left == 0 {
            self.dropped += 1;
            return None;
        }
        self.left -= 1;
        raw.index = self.begun;
        if !matches!(raw.kind, EventKind::Check(_) | EventKind::Fold) {
            self.last = raw.index;
        }
        self.begun += 1;
        raw.parent = self.open.last().map(|open| open.index);
        Some(())
    }

    /// An event that begins.
    pub(super) fn begin(&mut self, room: &Room, mut raw: Raw) -> Option<&mut Raw> {
        self.number(room, &mut raw)?;
        self.open.push(raw);
        self.open.last_mut()
    }

    /// An event that is over already.
    pub(super) fn complete(&mut self, room: &Room, mut raw: Raw) {
        if self.number(room, &mut raw).is_some() {
            self.keep(raw);
        }
    }

    /// Appends to what has ended.
    fn keep(&mut self, raw: Raw) {
        if self.ended.last().is_none_or(|c| c.len() == c.capacity()) {
            // All that can end before there is room for more.
            let most = (1 + self.open.len() + self.left).min(CHUNK);
            self.ended.push(Vec::with_capacity(most));
        }
        if let Some(chunk) = self.ended.last_mut() {
            chunk.push(raw);
        }
    }

    /// The innermost event that is open.
    pub(super) fn innermost(&self) -> Option<&Raw> {
        self.open.last()
    }

    /// The innermost open event that `wanted` accepts ended at `now`; by a panic, it failed for the
    /// reason that unwinds. Only those that began at `since` or later are looked at.
    pub(super) fn conclude(
        &mut self,
        (since, now): (u64, u64),
        panicked: bool,
        wanted: impl Fn(&Raw) -> bool,
        work: Work,
    ) {
        if !std::thread::panicking() {
            // Whatever it was, it is over.
            self.unwinding = None;
        }
        let why = self.unwinding.clone().filter(|_| panicked);
        if let Some(event) = self.take_open(since, wanted) {
            let event = Raw {
                end: Some(now),
                panicked,
                failure: event.failure.or(why),
                work,
                ..event
            };
            self.outlived(&event);
            self.keep(event);
        }
    }

    /// What was opened in it and is still open stays: a scope's guard may be returned from the call
    /// that it was made in.
    fn take_open(&mut self, since: u64, wanted: impl Fn(&Raw) -> bool) -> Option<Raw> {
        for depth in (0..self.open.len()).rev() {
            let event = &self.open[depth];
            if wanted(event) {
                return Some(self.open.remove(depth));
            }
            if event.start < since {
                return None;
            }
        }
        None
    }

    /// All that is open failed, and so did the call that came last if it is one of the failure's brick.
    pub(super) fn fail(&mut self, failure: &Arc<Failure>) {
        if let Some(brick) = failure.brick {
            self.fail_last_call(brick, failure);
        }
        for event in &mut self.open {
            event.failure.get_or_insert_with(|| Arc::clone(failure));
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
        let ended = self.ended.iter_mut().rev().flat_map(|c| c.iter_mut().rev());
        let mut all = self.open.iter_mut().rev().chain(ended);
        let last = all.find(|raw| raw.index == self.last);
        if let Some(event) = last
            && let EventKind::Brick(info) | EventKind::Poll(info) = event.kind
            && std::ptr::eq(info, brick)
        {
            event.failure.get_or_insert_with(|| Arc::clone(failure));
        }
    }

    /// A fold is written down just before the end of the call that made it due, and began after it:
    /// it is in what the call is in.
    fn outlived(&mut self, ended: &Raw) {
        let Some(chunk) = self.ended.last_mut() else {
            return;
        };
        let folds = chunk.iter_mut().rev();
        for fold in folds.take_while(|raw| raw.kind == EventKind::Fold) {
            if fold.parent == Some(ended.index) && ended.end.is_some_and(|end| end <= fold.start) {
                fold.parent = ended.parent;
            }
        }
    }
}

/// What is left of a log when the recording has stopped.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) thread: Thread,
    /// By their ends.
    pub(crate) ended: Vec<Vec<Raw>>,
    pub(crate) open: Vec<Raw>,
    pub(crate) dropped: u64,
}
