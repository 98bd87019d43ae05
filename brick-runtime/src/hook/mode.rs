//! Everything that makes a call take the slow path, in one byte.
//!
//! Every slab has a copy, its gate, so that the hot path finds it beside what it needs anyway.

use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use crate::{clock, device, slab};

/// Nothing has run yet.
const NEW: u8 = 1;
/// Calls are not recorded.
const DISABLED: u8 = 2;
/// The device is waited for after every brick.
const EAGER: u8 = 4;
/// There is no cycle counter: `Instant`.
const NO_COUNTER: u8 = 8;
/// A timeline is recorded.
const RECORDING: u8 = 16;
/// A call is being looked at so closely that no other's time means anything.
const PAUSED: u8 = 32;
/// A tracer waits for a brick's next call.
const ARMED: u8 = 64;

static MODE: AtomicU8 = AtomicU8::new(NEW);

/// 0 on the fast path.
pub(crate) fn get() -> u8 {
    MODE.load(Relaxed)
}

/// Gets the profiler ready, once: the clock starts, and wall time with it.
#[cold]
pub(crate) fn ready() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        clock::start();
        crate::profiler::start_wall();
        if !clock::has_counter() {
            MODE.fetch_or(NO_COUNTER, Relaxed);
        }
        MODE.fetch_and(!NEW, Relaxed);
        slab::set_gates();
    });
}

/// Whether calls are recorded.
#[cold]
pub(crate) fn enabled() -> bool {
    if get() & NEW != 0 {
        ready();
    }
    get() & DISABLED == 0
}

/// Whether calls that start now are recorded: so that nothing more need be measured in others.
#[inline]
pub(crate) fn counting() -> bool {
    get() & (NEW | DISABLED | PAUSED) == 0
}

/// Switches recording on or off, for calls that start from now on.
pub(crate) fn set_enabled(on: bool) {
    set(DISABLED, !on);
}

/// Switches the pause on or off, for calls that start from now on.
pub(super) fn set_paused(on: bool) {
    set(PAUSED, on);
}

/// Whether there is a pause.
pub(super) fn paused() -> bool {
    get() & PAUSED != 0
}

/// Says whether a tracer waits for a brick's next call.
pub(crate) fn set_armed(on: bool) {
    if armed() != on {
        set(ARMED, on);
    }
}

/// Whether a tracer waits for a brick's next call, which may be looked at now.
pub(super) fn armed() -> bool {
    get() & (ARMED | PAUSED | DISABLED) == ARMED
}

/// Whether every brick waits for the device.
pub(crate) fn set_eager(on: bool) {
    set(EAGER, on);
}

/// Whether a timeline is recorded.
pub(crate) fn set_recording(on: bool) {
    set(RECORDING, on);
}

/// Whether a timeline is recorded.
#[inline]
pub(crate) fn recording() -> bool {
    get() & RECORDING != 0
}

fn set(bit: u8, on: bool) {
    ready();
    if on {
        MODE.fetch_or(bit, Relaxed)
    } else {
        MODE.fetch_and(!bit, Relaxed)
    };
    slab::set_gates();
}

/// Waits for the device where every brick does.
pub(super) fn synchronize_if_eager() {
    if get() & EAGER != 0 {
        device::synchronize();
    }
}
