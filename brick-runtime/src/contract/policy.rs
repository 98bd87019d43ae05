//! What happens on a violation, and how many calls are checked.

use std::fmt;
use std::panic;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use super::Violation;
use crate::registry::BrickId;

/// What happens on a violation. Whatever it is, the violation is also counted and, up to
/// [`KEPT`], kept.
#[derive(Clone, Default)]
pub enum Policy {
    /// Panics with the [`Violation`] as payload.
    ///
    /// The first such panic installs a panic hook that prints a violation as its diagnosis
    /// instead of `Box<dyn Any>`, and hands every other panic to the hook there was before.
    /// While the thread is already panicking, a violation is only kept.
    #[default]
    Stop,
    /// Goes on.
    Record,
    /// Calls a function, then goes on. It may panic.
    Handler(Arc<dyn Fn(&Violation) + Send + Sync>),
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::Stop => "Stop",
            Policy::Record => "Record",
            Policy::Handler(_) => "Handler(..)",
        })
    }
}

/// Violations that are kept; those after are only counted.
pub const KEPT: usize = 256;

/// The violations since the start, or since they were last cleared.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    /// How many there were.
    pub total: u64,
    /// The first [`KEPT`] of them.
    pub kept: Vec<Violation>,
}

struct State {
    policy: Policy,
    kept: Vec<Violation>,
}

static STATE: Mutex<State> = Mutex::new(State {
    policy: Policy::Stop,
    kept: Vec::new(),
});
static TOTAL: AtomicU64 = AtomicU64::new(0);
static SAMPLING: AtomicU32 = AtomicU32::new(1);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets what happens on a violation.
pub fn set_policy(policy: Policy) {
    state().policy = policy;
}

/// What happens on a violation.
#[must_use]
pub fn policy() -> Policy {
    state().policy.clone()
}

/// Checks the results of one call in `every`, per brick and thread, beginning with the first: 1
/// is every call, 0 none (`requires` is then off as well; it is cheap, and never sampled).
pub fn set_sampling(every: u32) {
    SAMPLING.store(every, Relaxed);
    #[cfg(feature = "visualization")]
    crate::slab::set_gates();
}

/// One call in how many is checked.
#[must_use]
pub fn sampling() -> u32 {
    SAMPLING.load(Relaxed)
}

/// As [`set_sampling`], for one brick; `None` leaves it to the setting for all.
///
/// Does nothing in a build without `visualization`, which checks nothing.
pub fn set_sampling_of(id: impl BrickId, every: Option<u32>) {
    #[cfg(feature = "visualization")]
    {
        crate::slab::sites::set_sampling(id.info(), every);
        crate::slab::set_gates();
    }
    #[cfg(not(feature = "visualization"))]
    let _ = (id, every);
}

/// One call in how many of a brick is checked.
#[cfg(feature = "visualization")]
#[inline]
pub(crate) fn every(index: u16) -> u32 {
    crate::slab::sites::sampling(index).unwrap_or_else(sampling)
}

/// Whether every call of every brick is checked.
#[cfg(feature = "visualization")]
pub(crate) fn all_checked() -> bool {
    sampling() == 1 && crate::slab::sites::all_checked()
}

/// The violations so far.
#[must_use]
pub fn violations() -> Violations {
    Violations {
        total: TOTAL.load(Relaxed),
        kept: state().kept.clone(),
    }
}

/// Forgets the violations so far.
pub fn clear_violations() {
    TOTAL.store(0, Relaxed);
    state().kept.clear();
}

/// Counts a violation, and keeps it if there is room.
#[cfg_attr(not(feature = "visualization"), allow(dead_code))]
pub(crate) fn count(violation: &Violation) {
    TOTAL.fetch_add(1, Relaxed);
    let mut state = state();
    if state.kept.len() < KEPT {
        state.kept.push(violation.clone());
    }
}

/// Does what the policy says.
#[cfg_attr(not(feature = "visualization"), allow(dead_code))]
#[cold]
pub(crate) fn apply(violation: Violation) {
    count(&violation);
    #[cfg(feature = "visualization")]
    if crate::hook::mode::recording() {
        crate::timeline::live::violated(&violation);
    }
    match policy() {
        Policy::Record => {}
        Policy::Handler(handler) => handler(&violation),
        Policy::Stop if std::thread::panicking() => {}
        Policy::Stop => {
            install_hook();
            panic::panic_any(violation);
        }
    }
}

/// Makes panics with a violation readable.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            match info.payload().downcast_ref::<Violation>() {
                Some(violation) => {
                    let thread = std::thread::current();
                    let name = thread.name().unwrap_or("<unnamed>");
                    eprintln!("thread '{name}' stopped: {violation}");
                }
                None => before(info),
            }
        }));
    });
}
