//! Work that one thread hands to others.

use std::marker::PhantomData;

/// What is open on this thread now, for work that is handed to other threads: a pool does not know
/// for whom it works.
///
/// While nothing is recorded that is one load.
///
/// ```
/// use brick_runtime::timeline::{handover, span_scope};
///
/// let _scope = span_scope("sum");
/// let work = handover();
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let _task = work.task("part of the sum");
///         // … bricks that run here are part of "sum" …
///     });
/// });
/// ```
#[must_use = "it is for the threads that do the work"]
#[inline]
pub fn handover() -> Handover {
    Handover {
        #[cfg(feature = "visualization")]
        origin: crate::hook::mode::recording()
            .then(super::live::origin)
            .flatten(),
    }
}

/// Where work comes from; see [`handover`]. It can be copied, and sent to any thread.
#[derive(Clone, Copy, Debug)]
pub struct Handover {
    #[cfg(feature = "visualization")]
    origin: Option<super::live::Origin>,
}

impl Handover {
    /// Everything on this thread until the guard is dropped is part of that work: a span `name`,
    /// [launched by](super::Event::launched_by) what was open when the work was handed over, and in
    /// its layer and position.
    ///
    /// Where the work stayed on its thread, right inside of what handed it over, there is nothing to
    /// tell, and no span. While nothing is recorded this is one comparison.
    #[must_use = "the task ends when this is dropped"]
    #[inline]
    pub fn task(&self, name: &'static str) -> Task {
        #[cfg(not(feature = "visualization"))]
        let _ = name;
        Task {
            #[cfg(feature = "visualization")]
            start: self
                .origin
                .and_then(|origin| super::live::begin_task(origin, name)),
            here: PhantomData,
        }
    }
}

/// A piece of work in progress; see [`Handover::task`].
#[derive(Debug)]
pub struct Task {
    /// The tick at which it began, where it is recorded.
    #[cfg(feature = "visualization")]
    start: Option<u64>,
    here: PhantomData<*const ()>,
}

/// Without `visualization` too, where it does nothing: `drop(task)` means the same in both.
impl Drop for Task {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "visualization")]
        if let Some(start) = self.start {
            super::live::end_scope(start);
        }
    }
}
