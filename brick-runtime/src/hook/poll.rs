//! Async calls: each poll is a nesting level of its own, and the call is their sum.
//!
//! A guard never lives across an `.await`: between two polls the task may change threads, and
//! other tasks run on this one.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Entry, Post, Site, Work, begin, end, mode, now, verdict};
use crate::clock;
use crate::slab::Slab;
use crate::slab::meta::{self, Kind};

/// An async call that is about to start.
#[derive(Debug)]
pub struct AsyncCall {
    site: &'static Site,
    work: Work,
    layer: Option<u64>,
}

impl AsyncCall {
    pub(super) fn new(entry: Entry) -> AsyncCall {
        AsyncCall {
            site: entry.site,
            work: entry.work,
            layer: entry.layer,
        }
    }

    /// Polls `body` to its end, each poll timed.
    pub fn run<F: Future>(self, body: F) -> Running<F> {
        Running {
            call: self,
            progress: Progress::default(),
            body,
        }
    }
}

/// How far a call has come.
#[derive(Debug, Default)]
struct Progress {
    /// The tick of the first poll.
    since: Option<u64>,
    busy: u64,
    /// Flags of the call: recursive, if its first poll ran inside another call of the brick.
    flags: u64,
    /// A poll went unrecorded: its time is not known, so neither is the call's.
    gap: bool,
    done: bool,
}

/// The future of an async call.
pub struct Running<F> {
    call: AsyncCall,
    progress: Progress,
    body: F,
}

impl<F> fmt::Debug for Running<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("call", &self.call)
            .finish_non_exhaustive()
    }
}

impl<F: Future> Future for Running<F> {
    type Output = (F::Output, Post);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `body` is pinned structurally: it is never moved out of `self`, `Running` has
        // no `Unpin` impl of its own that would let it be, and its `Drop` leaves `body` alone.
        // The other fields are not pinned.
        let Running {
            call,
            progress,
            body,
        } = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        let body = unsafe { Pin::new_unchecked(body) };
        let Some((slab, index)) = mode::enabled().then(|| call.site.slab()).flatten() else {
            progress.gap = true;
            let poll = body.poll(cx);
            progress.done = poll.is_ready();
            return poll.map(|output| (output, Post::new(call.site, verdict::context(call.layer))));
        };
        let (meta, saved) = begin(slab, index, call.layer);
        let meta = if mode::get() == 0 {
            meta
        } else {
            meta | meta::SLOW
        };
        let start = if meta & meta::SLOW == 0 {
            clock::ticks()
        } else {
            clock::any_ticks()
        };
        if progress.since.is_none() {
            progress.since = Some(start);
            progress.flags = meta & meta::RECURSIVE;
        }
        let open = OpenPoll {
            slab,
            meta,
            saved,
            start,
            progress: &mut *progress,
            here: PhantomData,
        };
        let poll = body.poll(cx);
        let now = open.close();
        poll.map(|output| {
            progress.done = true;
            finish(slab, meta, now, progress, &call.work);
            (output, Post::new(call.site, meta))
        })
    }
}

/// A poll in progress; dropped without `close`, it was a panic.
struct OpenPoll<'a> {
    slab: &'static Slab,
    meta: u64,
    saved: u64,
    start: u64,
    progress: &'a mut Progress,
    here: PhantomData<*const ()>,
}

impl OpenPoll<'_> {
    /// Records the poll: the tick of its end.
    fn close(self) -> u64 {
        let mut this = std::mem::ManuallyDrop::new(self);
        let now = now(this.meta);
        this.record(now);
        now
    }

    fn record(&mut self, now: u64) {
        let ticks = now.saturating_sub(self.start);
        end(self.slab, self.meta, self.saved);
        self.progress.busy += ticks;
        if self
            .slab
            .append(ticks, plain(self.meta) | Kind::Poll.bits())
        {
            self.slab.fold_if_due(now, self.meta);
        }
    }
}

impl Drop for OpenPoll<'_> {
    #[cold]
    fn drop(&mut self) {
        let now = clock::any_ticks();
        self.record(now);
        self.progress.done = true;
        finish(
            self.slab,
            self.meta | meta::PANIC,
            now,
            self.progress,
            &Work::NONE,
        );
    }
}

/// Records a call that came to its end, on the thread of its last poll.
fn finish(slab: &Slab, meta: u64, now: u64, progress: &Progress, work: &Work) {
    let (Some(since), false) = (progress.since, progress.gap) else {
        return;
    };
    let meta = plain(meta) | meta & meta::PANIC | progress.flags;
    slab.append(
        progress.busy,
        meta | Kind::AsyncCall.bits() | work.over(progress.busy),
    );
    work.append(slab, meta);
    if slab.append(
        now.saturating_sub(since),
        plain(meta) | Kind::Latency.bits(),
    ) {
        slab.fold_if_due(now, meta);
    }
}

/// Without flags and kind.
fn plain(meta: u64) -> u64 {
    meta & !(meta::SPECIAL | meta::SLOW)
}

impl<F> Drop for Running<F> {
    fn drop(&mut self) {
        let Progress {
            since: Some(_),
            done: false,
            busy,
            ..
        } = self.progress
        else {
            return;
        };
        let Some((slab, index)) = mode::enabled().then(|| self.call.site.slab()).flatten() else {
            return;
        };
        let meta = meta::call(index, slab.context.get());
        if slab.append(busy, meta | Kind::Cancelled.bits()) {
            slab.fold_if_due(clock::any_ticks(), meta);
        }
    }
}
