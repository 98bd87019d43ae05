//! Scopes with a name of their own.

use std::fmt::Display;
use std::marker::PhantomData;

use crate::registry::BrickInfo;

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

/// Everything that is open on this thread has failed because of `error`: calls, layers, spans. So has the
/// call that came last, if it is one of `brick`, which returned the error.
///
/// Violations and panics need no telling. What has a reason already keeps it. While nothing is
/// recorded this does nothing.
///
/// ```
/// use brick_runtime::timeline::{fail, span_scope};
///
/// fn request(text: &str) -> Result<u32, std::num::ParseIntError> {
///     let _request = span_scope("request");
///     text.parse().inspect_err(|error| fail(error, None))
/// }
/// # assert!(request("none").is_err());
/// ```
pub fn fail(error: &dyn Display, brick: Option<&'static BrickInfo>) {
    #[cfg(feature = "visualization")]
    if crate::hook::mode::recording() {
        let message = error.to_string();
        super::live::fail(super::Failure { message, brick });
    }
    #[cfg(not(feature = "visualization"))]
    let _ = (error, brick);
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
