//! Where the code that runs now stands: in which layer, at which position.

use std::cell::Cell;
use std::marker::PhantomData;

/// Everything on this thread until the guard is dropped belongs to layer `layer`.
///
/// Scopes nest; the innermost counts. A `layer = …` argument of a brick opens one for the call.
/// Work handed to other threads (rayon) is theirs and carries no layer unless it opens a scope
/// itself. Don't hold one across an `.await`: in an async brick use the `layer` argument.
///
/// ```
/// for layer in 0..4 {
///     let _layer = brick_runtime::layer_scope(layer);
///     // … the layer's bricks …
/// }
/// ```
#[must_use = "the scope ends when this is dropped"]
#[inline]
pub fn layer_scope(layer: u64) -> LayerScope {
    #[cfg(not(feature = "visualization"))]
    let _ = layer;
    LayerScope {
        #[cfg(feature = "visualization")]
        before: live::enter(layer),
        here: PhantomData,
    }
}

/// A layer scope; see [`layer_scope`].
#[derive(Debug)]
pub struct LayerScope {
    /// The code of the layer before, unless there was no slab for it.
    #[cfg(feature = "visualization")]
    before: Option<u64>,
    here: PhantomData<*const ()>,
}

#[cfg(feature = "visualization")]
impl LayerScope {
    /// Opens a layer without a guard: what `resume` takes. For the hooks, whose guard must have no
    /// field to drop.
    pub(crate) fn enter(layer: u64) -> Option<u64> {
        live::enter(layer)
    }

    /// The scope that `enter` opened.
    pub(crate) fn resume(before: Option<u64>) -> LayerScope {
        LayerScope {
            before,
            here: PhantomData,
        }
    }
}

/// Without `visualization` too, where it does nothing: `drop(scope)` means the same in both.
impl Drop for LayerScope {
    #[inline]
    fn drop(&mut self) {
        #[cfg(feature = "visualization")]
        if let Some(before) = self.before {
            live::leave(before);
        }
    }
}

#[cfg(feature = "visualization")]
mod live {
    use crate::hook::mode;
    use crate::slab::{self, meta};
    use crate::timeline::{EventKind, live};

    pub(super) fn enter(layer: u64) -> Option<u64> {
        let slab = slab::owned_or_claim()?;
        let before = slab.enter_layer(meta::layer_code(layer));
        if !slab.is_open() && mode::recording() {
            live::begin_scope(EventKind::Layer(layer));
        }
        Some(before)
    }

    pub(super) fn leave(before: u64) {
        crate::profiler::synchronize_if_deferred();
        if let Some(slab) = slab::owned() {
            let left = slab.enter_layer(before);
            if let Some(layer) = meta::layer(left).filter(|_| !slab.is_open() && mode::recording())
            {
                live::end_innermost(EventKind::Layer(layer));
            }
        }
    }
}

/// The layer that this thread's bricks belong to now. `None` outside of any, and in a build
/// without `visualization`.
#[must_use]
pub fn current_layer() -> Option<u64> {
    #[cfg(feature = "visualization")]
    {
        crate::slab::meta::layer(crate::slab::owned()?.layer.get())
    }
    #[cfg(not(feature = "visualization"))]
    {
        None
    }
}

thread_local! {
    static POSITION: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Everything on this thread until the guard is dropped is at position `position` of the
/// sequence (of the token that is computed, say): violations tell it.
#[must_use = "the scope ends when this is dropped"]
pub fn position_scope(position: u64) -> PositionScope {
    let saved = POSITION.replace(Some(position));
    #[cfg(feature = "visualization")]
    if crate::hook::mode::recording() {
        crate::timeline::live::begin_scope(crate::timeline::EventKind::Token(position));
    }
    PositionScope {
        saved,
        here: PhantomData,
    }
}

/// A position scope; see [`position_scope`].
#[derive(Debug)]
pub struct PositionScope {
    saved: Option<u64>,
    here: PhantomData<*const ()>,
}

impl Drop for PositionScope {
    fn drop(&mut self) {
        let _left = POSITION.replace(self.saved);
        #[cfg(feature = "visualization")]
        if let Some(position) = _left.filter(|_| crate::hook::mode::recording()) {
            crate::timeline::live::end_innermost(crate::timeline::EventKind::Token(position));
        }
    }
}

/// The position that this thread is at, inside of a [`position_scope`].
#[must_use]
pub fn current_position() -> Option<u64> {
    POSITION.get()
}
