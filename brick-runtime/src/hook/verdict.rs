//! After the call: checking what it returned.

use std::marker::PhantomData;

use super::{Site, mode};
use crate::clock;
use crate::contract::{Check, Checker, Fault, Found, Rules, TensorStats, Violation, apply, every};
use crate::scope::{LayerScope, current_layer};
use crate::slab::meta::Kind;
use crate::slab::{self, Slab, sites};
use crate::timeline::{EventKind, live};

/// A precondition that does not hold.
#[cold]
#[inline(never)]
pub(super) fn required(site: &'static Site, layer: Option<u64>, text: &'static str) {
    if every(site.index()) > 0 {
        let layer = layer.or_else(current_layer);
        apply(Violation::new(site.info(), layer, Fault::Requires { text }));
    }
}

/// A call whose time is taken; its results may now be checked.
#[derive(Debug)]
pub struct Post {
    site: &'static Site,
    index: u16,
    /// Of a call on the fast path, the slab, and the tick at which what comes next begins.
    ended: Option<(&'static Slab, u64)>,
    /// Keeps the call's layer open while its results are checked.
    scope: Option<LayerScope>,
    /// The layer of an async call, which had none open between its polls.
    layer: Option<u64>,
}

impl Post {
    #[inline(always)]
    pub(super) fn new(
        site: &'static Site,
        index: u16,
        ended: Option<(&'static Slab, u64)>,
        scope: Option<LayerScope>,
    ) -> Post {
        Post {
            site,
            index,
            ended,
            scope,
            layer: None,
        }
    }

    pub(super) fn of_async(site: &'static Site, index: u16, layer: Option<u64>) -> Post {
        Post {
            site,
            index,
            ended: None,
            scope: None,
            layer,
        }
    }

    /// `None` where this call is not sampled or contracts are off.
    ///
    /// Inlined, with what it asks for in registers: words that are stored one by one and read back
    /// as one vector make the processor wait.
    #[inline(always)]
    pub fn checks(self) -> Option<Verdict> {
        let Post {
            site,
            index,
            ended,
            scope,
            layer,
        } = self;
        let (slab, start) = match ended {
            // The usual case: the checks begin when the call ends, and no clock need be read.
            Some((slab, end)) if slab.all_checked() => (Some(slab), end),
            _ => start_if_due(index),
        };
        if start == NOT_DUE {
            return None;
        }
        Some(Verdict {
            site,
            scope,
            layer,
            time: CheckTime::since(slab, index, start),
            violation: None,
        })
    }

    /// Runs `checks` as those of this call: their time is accounted as such.
    pub(crate) fn timed<R>(self, checks: impl FnOnce() -> R) -> R {
        let (slab, start) = start(self.index);
        let _time = CheckTime::since(slab, self.index, start);
        checks()
    }
}

/// The tick at which no checks begin.
const NOT_DUE: u64 = u64::MAX;

/// [`start`], or [`NOT_DUE`] if this call of the brick is none whose results are checked. (An
/// `Option` of the two would come back in memory.)
#[inline(never)]
fn start_if_due(index: u16) -> (Option<&'static Slab>, u64) {
    let is_due = match (every(index), slab::owned()) {
        (0, _) => false,
        (1, _) | (_, None) => true,
        (every, Some(slab)) => slab.samples(index, every),
    };
    match is_due {
        true => start(index),
        false => (None, NOT_DUE),
    }
}

/// The checks of one call, in order; the first failure is kept.
#[derive(Debug)]
pub struct Verdict {
    site: &'static Site,
    scope: Option<LayerScope>,
    layer: Option<u64>,
    time: CheckTime,
    violation: Option<Box<Violation>>,
}

impl Verdict {
    /// Checks `value` (a parameter's name, or `"return"`).
    ///
    /// One copy per type and crate: inlined with its loops into every brick, it would be half of
    /// what an annotation costs to compile.
    #[inline(never)]
    pub fn tensor<T: Check + ?Sized>(&mut self, name: &'static str, value: &T, rules: &Rules) {
        if self.violation.is_none() {
            let mut checker = Checker::find(rules);
            value.check(&mut checker);
            if let Some(found) = checker.found() {
                self.broken(name, value, rules, found);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn broken<T: Check + ?Sized>(&mut self, name: &str, value: &T, rules: &Rules, found: Found) {
        let mut checker = Checker::measure(rules, found.part);
        value.check(&mut checker);
        let stats: TensorStats = checker.into_stats();
        self.keep(Fault::number(name, found, rules, stats));
    }

    /// A postcondition.
    #[inline]
    pub fn ensures(&mut self, holds: bool, text: &'static str) {
        if !holds && self.violation.is_none() {
            self.keep(Fault::Ensures { text });
        }
    }

    #[cold]
    fn keep(&mut self, fault: Fault) {
        let layer = self.layer.or_else(current_layer);
        self.violation = Some(Box::new(Violation::new(self.site.info(), layer, fault)));
    }

    /// Applies the policy: may panic with the violation.
    #[inline(never)]
    pub fn finish(self) {
        let Verdict {
            scope,
            time,
            violation,
            ..
        } = self;
        drop(time);
        drop(scope);
        if let Some(violation) = violation {
            apply(*violation);
        }
    }
}

/// The time of a call's checks: a nesting level of its own, in nobody's self time.
#[derive(Debug)]
struct CheckTime {
    slab: Option<&'static Slab>,
    index: u16,
    above: u64,
    start: u64,
    here: PhantomData<*const ()>,
}

impl CheckTime {
    #[inline(always)]
    fn since(slab: Option<&'static Slab>, index: u16, start: u64) -> CheckTime {
        CheckTime {
            slab,
            index,
            above: slab.map_or(0, |slab| slab.children.get()),
            start,
            here: PhantomData,
        }
    }
}

/// Where the time of a brick's checks is recorded, and the tick at which they begin.
fn start(index: u16) -> (Option<&'static Slab>, u64) {
    // A call that is not recorded has no place for its checks either.
    let slab = slab::owned().filter(|_| index != sites::UNREGISTERED);
    (slab, slab.map_or(0, |slab| begin(slab, index)))
}

/// The tick at which checks of the brick `index` begin.
#[inline]
fn begin(slab: &Slab, index: u16) -> u64 {
    if slab.is_open() {
        return clock::ticks();
    }
    match sites::info(index) {
        Some(info) if mode::recording() => live::begin_scope(EventKind::Check(info)),
        _ => clock::any_ticks(),
    }
}

/// The tick at which checks end that began at the tick `start`.
#[inline]
fn end(slab: &Slab, start: u64) -> u64 {
    if slab.is_open() {
        clock::ticks()
    } else if mode::recording() {
        live::end_scope(start)
    } else {
        clock::any_ticks()
    }
}

/// However the checks ended: one may panic.
impl Drop for CheckTime {
    #[inline(never)]
    fn drop(&mut self) {
        if let Some(slab) = self.slab {
            let now = end(slab, self.start);
            let amount = now.wrapping_sub(self.start);
            slab.children.set(self.above.wrapping_add(amount));
            slab.append(Kind::Check, self.index, amount);
            if slab.is_due() {
                slab.settle(now);
            }
        }
    }
}
