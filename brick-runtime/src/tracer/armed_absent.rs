//! In place of `armed.rs` where calls are not recorded: there is nothing to judge by.

use std::sync::Arc;

use super::BrickTracer;

/// While this lives, the tracer would escalate calls of every annotated function by itself.
#[derive(Debug)]
pub struct Armed(());

impl Armed {
    pub(super) fn new(_: &Arc<BrickTracer>) -> Option<Armed> {
        Some(Armed(()))
    }

    /// Looks at nothing: built without `visualization`.
    pub fn look(&self) {}
}

/// As where it ends something, so that `drop(armed)` means the same.
impl Drop for Armed {
    fn drop(&mut self) {}
}
