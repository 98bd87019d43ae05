//! Violations: what they say, and what the policy makes of them.
#![cfg(feature = "visualization")]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use brick_runtime::__private::Site;
use brick_runtime::contract::{self, Fault, Policy, Violation};
use brick_runtime::{BrickProfiler, Check, Checker, Rules, layer_scope, position_scope};
use common::{of, spin, stats};

/// Policy and sampling are the process's: one test at a time, each from the same state.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    contract::set_policy(Policy::Stop);
    contract::set_sampling(1);
    contract::clear_violations();
    guard
}

/// A brick that returns `out`, with a contract on it.
fn checked<T: Check>(site: &'static Site, rules: &Rules, out: T) -> T {
    let post = site.open().start().exit();
    if let Some(mut verdict) = post.checks() {
        verdict.tensor("out", &out, rules);
        verdict.finish();
    }
    out
}

#[test]
fn stop_panics_with_the_diagnosis() {
    let _alone = alone();
    let site = site!("stops");
    let mut values = vec![0.5f32; 100];
    values[42] = f32::NAN;
    values[60] = f32::INFINITY;
    let _layer = layer_scope(3);
    let _position = position_scope(17);
    let panic =
        catch_unwind(AssertUnwindSafe(|| checked(site, &Rules::FINITE, values))).unwrap_err();
    let violation = panic
        .downcast_ref::<Violation>()
        .expect("the payload is the violation");
    assert_eq!(
        (violation.brick.name, violation.layer, violation.position),
        ("stops", Some(3), Some(17))
    );
    let Fault::Number {
        tensor,
        index,
        value,
        rule,
        stats,
    } = &violation.fault
    else {
        panic!("{violation:?}")
    };
    assert_eq!(
        (tensor.as_str(), *index, rule.as_str()),
        ("out", 42, "no_nan")
    );
    assert!(value.is_nan());
    assert_eq!(
        (stats.min, stats.max, stats.mean, stats.std),
        (0.5, 0.5, 0.5, 0.0)
    );
    assert_eq!((stats.nan_count, stats.inf_count), (1, 1));
    assert_eq!(contract::violations().total, 1);
}

#[test]
fn record_goes_on_and_keeps_so_many() {
    let _alone = alone();
    contract::set_policy(Policy::Record);
    let site = site!("records");
    for i in 0..contract::KEPT + 10 {
        checked(site, &Rules::range(0.0, 1.0), [0.0, i as f64]);
    }
    let violations = contract::violations();
    // 0 and 1 are in range.
    assert_eq!(violations.total, contract::KEPT as u64 + 8);
    assert_eq!(violations.kept.len(), contract::KEPT);
    assert!(matches!(
        &violations.kept[0].fault,
        Fault::Number {
            index: 1,
            value: 2.0,
            ..
        }
    ));
}

#[test]
fn a_handler_is_called_and_the_first_fault_counts() {
    let _alone = alone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    contract::set_policy(Policy::Handler(Arc::new(move |v| {
        log.lock().unwrap().push(v.fault.clone())
    })));
    let site = site!("handled");
    let post = site
        .open()
        .requires(1 > 2, "1 > 2")
        .layer(9u32)
        .start()
        .exit();
    let mut verdict = post.checks().unwrap();
    verdict.tensor("a", &[1.0f32], &Rules::FINITE);
    verdict.ensures(false, "|r| r.is_ok()");
    verdict.tensor("b", &[f32::NAN], &Rules::FINITE);
    verdict.finish();
    assert_eq!(
        *seen.lock().unwrap(),
        [
            Fault::Requires { text: "1 > 2" },
            Fault::Ensures {
                text: "|r| r.is_ok()"
            }
        ]
    );
    let layers: Vec<_> = contract::violations()
        .kept
        .iter()
        .map(|v| v.layer)
        .collect();
    // The layer comes after `requires` in the chain: only the post-check knows it.
    assert_eq!(layers, [None, Some(9)]);
    assert_eq!(brick_runtime::current_layer(), None);
}

#[test]
fn sampling_checks_one_call_in_so_many() {
    let _alone = alone();
    contract::set_policy(Policy::Record);
    let site = site!("sampled");
    contract::set_sampling(10);
    for _ in 0..95 {
        checked(site, &Rules::NO_NAN, f32::NAN);
    }
    // The 1st, 11th, … 91st.
    assert_eq!(contract::violations().total, 10);
    assert_eq!(stats("sampled").unwrap().checks().count, 10);
    contract::set_sampling(0);
    checked(site, &Rules::NO_NAN, f32::NAN);
    site.open().requires(false, "false").start().exit();
    assert_eq!(contract::violations().total, 10);
}

#[test]
fn contracts_hold_while_the_profiler_is_off() {
    let _alone = alone();
    contract::set_policy(Policy::Record);
    let site = site!("unrecorded");
    BrickProfiler::global().disable();
    checked(site, &Rules::NO_NAN, f32::NAN);
    BrickProfiler::global().enable();
    assert_eq!(contract::violations().total, 1);
    assert!(stats("unrecorded").is_none());
}

/// A value that takes long to check, and calls a brick meanwhile.
struct Slow(&'static Site);

impl Check for Slow {
    fn check(&self, checker: &mut Checker<'_>) {
        let guard = self.0.open().start();
        spin(std::time::Duration::from_millis(2));
        guard.exit();
        checker.numbers(&[1.0f32]);
    }
}

#[test]
fn the_time_of_checks_is_theirs() {
    let _alone = alone();
    let (outer, inner, within) = (
        site!("check outer"),
        site!("check inner"),
        site!("check within"),
    );
    let guard = outer.open().start();
    checked(inner, &Rules::FINITE, Slow(within));
    guard.exit();
    // Of one snapshot: each measures the clock's rate anew.
    let snapshot = BrickProfiler::global().snapshot();
    let [outer, inner] = ["check outer", "check inner"].map(|name| of(&snapshot, name).unwrap());
    assert_eq!(inner.checks().count, 1);
    let checks = inner.checks().total_ns;
    assert!(checks >= 2e6 * 0.999, "{checks}");
    // Not the checked brick's, and of its caller's only the inclusive time.
    assert!(inner.total_ns() + checks <= outer.total_ns());
    assert!((outer.self_ns() + inner.total_ns() + checks - outer.total_ns()).abs() < 1.0);
}

#[test]
fn a_panicking_check_leaves_the_books_in_order() {
    struct Panics;
    impl Check for Panics {
        fn check(&self, _: &mut Checker<'_>) {
            std::panic::resume_unwind(Box::new("check"));
        }
    }
    let _alone = alone();
    let (outer, inner) = (site!("books outer"), site!("books inner"));
    let guard = outer.open().start();
    let result = catch_unwind(AssertUnwindSafe(|| checked(inner, &Rules::FINITE, Panics)));
    assert!(result.is_err());
    guard.exit();
    let snapshot = BrickProfiler::global().snapshot();
    let [outer, inner] = ["books outer", "books inner"].map(|name| of(&snapshot, name).unwrap());
    assert_eq!((inner.panics(), inner.checks().count), (0, 1));
    let parts = outer.self_ns() + inner.total_ns() + inner.checks().total_ns;
    assert!((parts - outer.total_ns()).abs() < 1.0);
}
