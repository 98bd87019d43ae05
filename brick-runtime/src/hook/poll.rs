//! Async calls: each poll is a nesting level of its own, and the call is their sum.
//!
//! A guard never lives across an `.await`: between two polls the task may change threads, and
//! other tasks run on this one.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::level::Level;
use super::work::{Work, append};
use super::{Post, Site, mode};
use crate::clock;
use crate::scope::layer_scope;
use crate::slab::meta::{self, Kind};
use crate::slab::{Entry, Slab};

/// An async call that is about to start.
#[derive(Debug)]
pub struct AsyncCall {
    site: &'static Site,
    work: Work,
    layer: Option<u64>,
}

impl AsyncCall {
    pub(super) fn new(entry: super::Entry) -> AsyncCall {
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
    /// Tick and meta word of the first poll: the call is recursive if that was.
    first: Option<(u64, u64)>,
    busy: u64,
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
        let _layer = call.layer.map(layer_scope);
        let level = Level::open_slow(call.site);
        let Some(slab) = level.slab() else {
            progress.gap = true;
            let poll = body.poll(cx);
            progress.done = poll.is_ready();
            return poll.map(|output| (output, Post::of_async(call.site, 0, call.layer)));
        };
        progress.first.get_or_insert((level.start, level.meta));
        let open = OpenPoll {
            slab,
            level,
            progress: &mut *progress,
            here: PhantomData,
        };
        let poll = body.poll(cx);
        let now = open.close();
        poll.map(|output| {
            progress.done = true;
            finish(slab, now, progress, &call.work, 0);
            (output, Post::of_async(call.site, level.meta, call.layer))
        })
    }
}

/// A poll in progress; dropped without `close`, it was a panic.
struct OpenPoll<'a> {
    slab: &'static Slab,
    level: Level,
    progress: &'a mut Progress,
    here: PhantomData<*const ()>,
}

impl OpenPoll<'_> {
    /// Records the poll: the tick of its end.
    fn close(self) -> u64 {
        let mut this = std::mem::ManuallyDrop::new(self);
        mode::synchronize_if_eager();
        this.record()
    }

    fn record(&mut self) -> u64 {
        let now = clock::any_ticks();
        self.progress.busy += now.saturating_sub(self.level.start);
        let kind = meta::of(Kind::Poll, meta::index(self.level.meta));
        if self.level.close(self.slab, now, kind) {
            self.slab.fold_if_due(now);
        }
        now
    }
}

impl Drop for OpenPoll<'_> {
    #[cold]
    fn drop(&mut self) {
        let now = self.record();
        self.progress.done = true;
        finish(self.slab, now, self.progress, &Work::NONE, meta::PANIC);
    }
}

/// Records a call that came to its end, on the thread of its last poll.
fn finish(slab: &Slab, now: u64, progress: &Progress, work: &Work, flags: u64) {
    let (Some((since, call)), false) = (progress.first, progress.gap) else {
        return;
    };
    let meta =
        call | meta::of(Kind::AsyncCall, meta::index(call)) | flags | work.over(progress.busy);
    slab.append(Entry {
        amount: progress.busy,
        children: 0,
        meta,
    });
    work.append(slab, call);
    append(slab, Kind::Latency, call, now.saturating_sub(since));
    slab.fold_if_due(now);
}

impl<F> Drop for Running<F> {
    fn drop(&mut self) {
        let Progress {
            first: Some(_),
            done: false,
            busy,
            ..
        } = self.progress
        else {
            return;
        };
        if let Some((slab, call)) = self.call.site.find_slow() {
            append(slab, Kind::Cancelled, call, busy);
            slab.fold_if_due(clock::any_ticks());
        }
    }
}
