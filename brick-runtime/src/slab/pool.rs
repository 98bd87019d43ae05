//! Who owns which slab.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

use super::ledger::allocate_zeroed;
use super::meta;
use super::{Gates, Slab, sites};
use crate::registry::BrickInfo;

/// Every slab, newest first; only ever grows.
static ALL: AtomicPtr<Slab> = AtomicPtr::new(ptr::null_mut());
/// Slabs without an owner. Under this lock a slab changes hands.
static FREE: Mutex<Free> = Mutex::new(Free(ptr::null()));
/// Calls that could not be recorded.
static DROPPED: AtomicU64 = AtomicU64::new(0);

struct Free(*const Slab);
// SAFETY: the pointer is null or a slab's, and slabs are `Sync` and never freed.
unsafe impl Send for Free {}

/// Stands in for the slab of a thread that has none: its fast path is closed, nobody writes it.
// SAFETY: zero is a valid value of every field: integers, and pointers that may be null.
static NONE: Slab = unsafe { std::mem::zeroed() };

thread_local! {
    /// This thread's slab, [`NONE`] before its first brick. Without destructor: a plain load,
    /// and good until the very end of the thread.
    static CURRENT: Cell<&'static Slab> = const { Cell::new(&NONE) };
    /// Hands the slab back when the thread ends.
    static HANDOVER: Handover = const { Handover };
}

struct Handover;

impl Drop for Handover {
    fn drop(&mut self) {
        let slab = CURRENT.replace(&NONE);
        if !ptr::eq(slab, &NONE) {
            slab.retire();
            free(slab);
        }
    }
}

/// Gives a slab up.
fn free(slab: &'static Slab) {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    slab.next_free.store(free.0.cast_mut(), Relaxed);
    free.0 = slab;
}

/// This thread's slab, or one whose fast path is closed.
#[inline(always)]
pub(crate) fn current() -> &'static Slab {
    CURRENT.get()
}

/// This thread's slab, if it has one.
#[inline]
pub(crate) fn owned() -> Option<&'static Slab> {
    Some(CURRENT.get()).filter(|slab| !ptr::eq(*slab, &NONE))
}

/// This thread's slab, claimed if need be. `None` in destructors of thread-locals that run after
/// the slab was handed back.
pub(crate) fn owned_or_claim() -> Option<&'static Slab> {
    owned().or_else(claim)
}

#[cold]
fn claim() -> Option<&'static Slab> {
    let slab = {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the list holds slabs, which are never freed.
        match unsafe { free.0.as_ref() } {
            Some(slab) => {
                free.0 = slab.next_free.load(Relaxed);
                slab.take_over();
                slab
            }
            None => new_slab(),
        }
    };
    // Set before the destructor is registered: that may allocate, and an annotated allocator
    // would come back here.
    CURRENT.set(slab);
    if HANDOVER.try_with(|_| ()).is_err() {
        CURRENT.set(&NONE);
        free(slab);
        return None;
    }
    Some(slab)
}

/// A new slab in the list of all. Called under the lock: one writer of `ALL`.
fn new_slab() -> &'static Slab {
    // SAFETY: a zeroed `Slab` is valid: null pointers and integers.
    let slab = unsafe { allocate_zeroed::<Slab>().as_ref() };
    slab.set_gates(Gates::get());
    slab.next.store(ALL.load(Relaxed), Relaxed);
    ALL.store(ptr::from_ref(slab).cast_mut(), Release);
    slab
}

/// Every slab.
pub(crate) fn all() -> impl Iterator<Item = &'static Slab> {
    // SAFETY: the list holds slabs, which are never freed.
    let get = |slab: &AtomicPtr<Slab>| unsafe { slab.load(Acquire).as_ref() };
    std::iter::successors(get(&ALL), move |slab| get(&slab.next))
}

/// Opens or closes the fast paths on every thread, as mode and sampling now say.
pub(crate) fn set_gates() {
    // Under the lock no slab is made with what was set before.
    let _free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let gates = Gates::get();
    all().for_each(|slab| slab.set_gates(gates));
}

/// The way in for a brick whose slab, index or slot is missing: makes them. `Err` where it
/// can't be recorded, with the index to remember; the call is then counted as dropped.
#[cold]
#[inline(never)]
pub(crate) fn claimed(info: &'static BrickInfo, index: u16) -> Result<(&'static Slab, u16), u16> {
    crate::clock::start();
    let index = if index == sites::UNREGISTERED {
        sites::register(info)
    } else {
        index
    };
    let Some(slab) = owned_or_claim().filter(|_| index != sites::REFUSED) else {
        count_dropped();
        return Err(index);
    };
    if slab.state(index).load(Relaxed) == meta::ABSENT {
        slab.admit(index, info);
    }
    Ok((slab, index))
}

/// Calls that could not be recorded: of more than `MAX_BRICKS` bricks, made by an allocator while
/// a brick is being admitted, or in destructors of thread-locals that ran after ours.
pub(super) fn dropped() -> &'static AtomicU64 {
    &DROPPED
}

/// Counts a call that could not be recorded.
#[cold]
pub(crate) fn count_dropped() {
    DROPPED.fetch_add(1, Relaxed);
}
