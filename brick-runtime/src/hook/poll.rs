//! Async calls: each poll is a nesting level of its own, and the call is their sum.
//!
//! A guard never lives across an `.await`: between two polls the task may change threads, and
//! other tasks run on this one.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::level::Level;
use super::work::{Declares, Work};
use super::{Post, Site, mode};
use crate::clock;
use crate::scope::layer_scope;
use crate::slab::Slab;
use crate::slab::meta::{self, Kind};

/// An async call that is about to start.
#[derive(Debug)]
pub struct AsyncCall {
    site: &'static Site,
    work: Work,
}

impl AsyncCall {
    pub(super) fn new(site: &'static Site, work: Work) -> AsyncCall {
        AsyncCall { site, work }
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
    /// Tick of the first poll, and the brick's state then: the call is recursive if that was.
    first: Option<(u64, u16)>,
    busy: u64,
    /// A poll went unrecorded: its time is not known, so neither is the call's.
    gap: bool,
    /// The call's number in a timeline, given at its first poll that is in one.
    number: Option<u64>,
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
        let _layer = call.work.layer.map(layer_scope);
        let level = Level::open_recorded(call.site, Some(&mut progress.number));
        let Some(slab) = level.slab() else {
            progress.gap = true;
            let poll = body.poll(cx);
            progress.done = poll.is_ready();
            return poll.map(|output| (output, Post::of_async(call.site, 0, call.work.layer)));
        };
        progress.first.get_or_insert((level.start, level.opened()));
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
            finish(slab, level.index(), now, progress, &call.work, false);
            (
                output,
                Post::of_async(call.site, level.index(), call.work.layer),
            )
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
        this.record(false)
    }

    fn record(&mut self, panicked: bool) -> u64 {
        let now = clock::any_ticks();
        self.progress.busy += now.saturating_sub(self.level.start);
        let (ticks, children) = self.level.close(self.slab, now);
        let index = self.level.index();
        self.slab.append(Kind::Poll, index, ticks);
        self.slab.append(Kind::PollChildren, index, children);
        self.level.end_event(now, panicked, &Work::NONE);
        self.slab.settle(now);
        now
    }
}

impl Drop for OpenPoll<'_> {
    #[cold]
    fn drop(&mut self) {
        let now = self.record(true);
        self.progress.done = true;
        finish(self.slab, self.level.index(), now, self.progress, &(), true);
    }
}

/// Records a call that came to its end, on the thread of its last poll.
fn finish(
    slab: &Slab,
    index: u16,
    now: u64,
    progress: &Progress,
    work: &impl Declares,
    panicked: bool,
) {
    let (Some((since, opened)), false) = (progress.first, progress.gap) else {
        return;
    };
    if meta::is_open(opened) {
        slab.append(Kind::InnerAsyncCall, index, 1);
    } else {
        slab.append(Kind::AsyncCall, index, progress.busy);
    }
    if panicked {
        slab.append(Kind::Panic, index, 1);
    }
    work.append(slab, index, opened, progress.busy);
    slab.append(Kind::Latency, index, now.saturating_sub(since));
    slab.settle(now);
}

impl<F> Drop for Running<F> {
    fn drop(&mut self) {
        let Progress {
            first: Some(_),
            done: false,
            ..
        } = self.progress
        else {
            return;
        };
        if let Some((slab, index, _)) = self.call.site.find_slow() {
            slab.append(Kind::Cancelled, index, 1);
            slab.settle(clock::any_ticks());
        }
    }
}
