//! The bricks of this process: a dense index for each, given at its first call.

use std::sync::atomic::{
    AtomicPtr, AtomicU16, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

use super::ledger::MAX_BRICKS;
use crate::registry::BrickInfo;

/// Index 0 belongs to no brick: no slab ever has a slot for it.
pub(crate) const UNREGISTERED: u16 = 0;
/// The index of entries that are of the profiler itself.
pub(crate) const PROFILER: u16 = UNREGISTERED;
/// The index of bricks that came too late to get one: no slab has a slot for it either.
pub(crate) const REFUSED: u16 = u16::MAX;

static TABLE: [AtomicPtr<BrickInfo>; MAX_BRICKS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_BRICKS];
/// Indices given; written under `LOCK`.
static NEXT: AtomicU16 = AtomicU16::new(1);
static LOCK: Mutex<()> = Mutex::new(());

/// The index of a brick; the same for equal infos (a generic or a duplicated static), else a new
/// one; [`REFUSED`] when all are given. Allocates nothing: an allocator may be a brick.
pub(crate) fn register(info: &'static BrickInfo) -> u16 {
    let _lock = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let next = NEXT.load(Relaxed);
    if let Some(known) =
        (1..next).find(|&i| self::info(i).is_some_and(|k| std::ptr::eq(k, info) || k == info))
    {
        return known;
    }
    let Some(entry) = TABLE.get(usize::from(next)) else {
        return REFUSED;
    };
    entry.store(std::ptr::from_ref(info).cast_mut(), Release);
    NEXT.store(next + 1, Release);
    next
}

/// Per brick: one call in how many is checked, plus one; 0 leaves it to the global setting.
static SAMPLING: [AtomicU32; MAX_BRICKS] = [const { AtomicU32::new(0) }; MAX_BRICKS];

/// Sets one call in how many of a brick is checked.
pub(crate) fn set_sampling(info: &'static BrickInfo, every: Option<u32>) {
    if let Some(sampling) = SAMPLING.get(usize::from(register(info))) {
        sampling.store(every.map_or(0, |every| every.saturating_add(1)), Relaxed);
    }
}

/// One call in how many of a brick is checked, if it has a setting of its own.
#[inline]
pub(crate) fn sampling(index: u16) -> Option<u32> {
    SAMPLING
        .get(usize::from(index))?
        .load(Relaxed)
        .checked_sub(1)
}

/// Whether no brick has a setting by which some of its calls are not checked.
pub(crate) fn all_checked() -> bool {
    indices().all(|index| sampling(index).is_none_or(|every| every == 1))
}

/// The brick of an index.
pub(crate) fn info(index: u16) -> Option<&'static BrickInfo> {
    let info = TABLE.get(usize::from(index))?.load(Acquire);
    // SAFETY: only `register` writes the table, and it writes `&'static BrickInfo`s.
    unsafe { info.as_ref() }
}

/// Every index given so far.
pub(crate) fn indices() -> std::ops::Range<u16> {
    1..NEXT.load(Acquire)
}
