//! What a device must offer, and when it is waited for.

#[cfg(feature = "visualization")]
use std::sync::{OnceLock, PoisonError, RwLock};

/// When a device is waited for, so that a brick's time holds the work that it started.
///
/// Without a registered [`Device`] both mean the same: on the CPU a call has done its work when
/// it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum SyncMode {
    /// After every brick, inside its timed region: each brick's time is its own, at the price of
    /// a bubble after each. For looking closely.
    Eager,
    /// Once at the end of each layer scope: bricks in between are timed as the launches they
    /// are, the layer's work is done when the layer ends. For production.
    #[default]
    Deferred,
}

/// A device that works asynchronously to the thread that gives it work.
pub trait Device: Send + Sync + 'static {
    /// Returns when all work given so far is done.
    fn synchronize(&self);
}

#[cfg(feature = "visualization")]
static DEVICE: OnceLock<RwLock<Option<Box<dyn Device>>>> = OnceLock::new();

/// Registers the device that the sync mode is about; `None` takes it away.
#[cfg(feature = "visualization")]
pub(crate) fn set(device: Option<Box<dyn Device>>) {
    *DEVICE
        .get_or_init(Default::default)
        .write()
        .unwrap_or_else(PoisonError::into_inner) = device;
}

/// Whether there is a device to wait for.
#[cfg(feature = "visualization")]
pub(crate) fn present() -> bool {
    DEVICE.get().is_some_and(|device| {
        device
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    })
}

/// Waits for the device, if there is one.
#[cfg(feature = "visualization")]
#[cold]
pub(crate) fn synchronize() {
    if let Some(device) = DEVICE.get()
        && let Some(device) = &*device.read().unwrap_or_else(PoisonError::into_inner)
    {
        device.synchronize();
    }
}
