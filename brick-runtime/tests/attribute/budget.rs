//! `budget_us`: a number, or an expression over the parameters.

use std::time::{Duration, Instant};

use brick_runtime::{Budget, brick};

use crate::{BrickId, stats};

fn spin(us: u64) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(us) {}
}

#[brick(id = BudgetFixed, budget_us = 300)]
fn fixed(us: u64) {
    spin(us);
}

#[test]
fn calls_over_a_fixed_budget_are_counted() {
    assert_eq!(
        BrickId::BudgetFixed.info().budget,
        Budget::Fixed { ns: 300_000 }
    );
    fixed(400);
    fixed(500);
    // An unlucky call may be descheduled past its budget; of so many, one is lucky.
    (0..20).for_each(|_| fixed(0));
    if let Some(stats) = stats(BrickId::BudgetFixed) {
        assert_eq!(stats.calls(), 22);
        assert!(
            (2..22).contains(&stats.over_budget()),
            "{}",
            stats.over_budget()
        );
    }
}

#[brick(id = BudgetPerCall, budget_us = 0.5 * limit as f64)]
fn per_call(limit: u64, us: u64) {
    spin(us);
}

#[test]
fn a_budget_can_depend_on_the_call() {
    assert_eq!(
        BrickId::BudgetPerCall.info().budget,
        Budget::PerCall {
            expr: "0.5 * limit as f64"
        }
    );
    per_call(1_000_000, 300);
    assert_eq!(
        stats(BrickId::BudgetPerCall).map_or(0, |stats| stats.over_budget()),
        0
    );
    per_call(200, 300);
    assert_eq!(
        stats(BrickId::BudgetPerCall).map_or(1, |stats| stats.over_budget()),
        1
    );
}
