//! What is behind the handle in a build without `visualization`: nothing, and no state.

use crate::device::{Device, SyncMode};
use crate::snapshot::Snapshot;

pub(super) fn ready() {}
pub(super) fn is_enabled() -> bool {
    false
}
pub(super) fn set_enabled(_on: bool) {}
pub(super) fn wall_ns() -> u64 {
    0
}
pub(super) fn tokens() -> u64 {
    0
}
pub(super) fn add_tokens(_n: u64) {}
pub(super) fn reset() {}
pub(super) fn snapshot() -> Snapshot {
    Snapshot::absent()
}
pub(super) fn clock() -> Option<&'static str> {
    None
}
pub(super) fn sync_mode() -> SyncMode {
    SyncMode::default()
}
pub(super) fn set_sync_mode(_mode: SyncMode) {}
pub(super) fn set_device(_device: Option<Box<dyn Device>>) {}
