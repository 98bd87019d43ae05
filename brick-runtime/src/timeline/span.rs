//! Scopes with a name of their own.

use std::marker::PhantomData;

/// Everything on this thread until the guard is dropped is in the span `name` of a
/// [`Timeline`](super::Timeline): a request, a step, a part of a layer.
///
/// While nothing is recorded that is one load. Don't hold one across an `.await`.
///
/// ```
/// let _request = brick_runtime::timeline::span_scope("request");
/// ```
#[must_use = "the scope ends when this is dropped"]
#[inline]
pub fn span_scope(name: &'static str) -> SpanScope {
    #[cfg(not(feature = "visualization"))]
    let _ = name;
    SpanScope {
        #[cfg(feature = "visualization")]
        start: crate::hook::mode::recording()
            .then(|| super::live::begin_scope(super::EventKind::Span(name))),
        here: PhantomData,
    }
}

/// A span scope; see [`span_scope`].
#[derive(Debug)]
pub struct SpanScope {
    /// The tick at which it was opened, while something was recorded.
    #[cfg(feature = "visualization")]
    start: Option<u64>,
    here: PhantomData<*const ()>,
}

/// Without `visualization` too, where it does nothing: `drop(scope)` means the same in both.
impl Drop for SpanScope {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "visualization")]
        if let Some(start) = self.start {
            super::live::end_scope(start);
        }
    }
}
