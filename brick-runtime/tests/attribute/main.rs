//! What each option of `#[brick]` does to a running program, one file per option.
//!
//! Every test has bricks of its own, so that all can run at once; violations are recorded
//! and looked up by brick. Without `visualization` the same calls must give the same values, and
//! nothing may be recorded.

mod amounts;
mod assertion;
mod asynchronous;
mod backend;
mod budget;
mod caller;
mod ensures;
mod exits;
mod information;
mod kinds;
mod layer;
mod requires;

use brick_runtime::contract::{self, Fault, Policy};
use brick_runtime::{BrickId as _, BrickProfiler, BrickStats};

brick_runtime::bricks! {
    ..,
    FromMacro,
}

const ON: bool = cfg!(feature = "visualization");

/// The statistics of a brick that was called: `None` without `visualization`.
fn stats(id: BrickId) -> Option<BrickStats> {
    let stats = BrickProfiler::global().snapshot().brick(id).cloned();
    assert_eq!(
        stats.is_some(),
        ON,
        "{id} is recorded when on, and only then"
    );
    stats
}

/// How often a brick was called, where that is counted; else `expected`.
fn calls(id: BrickId, expected: u64) -> u64 {
    stats(id).map_or(expected, |stats| stats.calls())
}

/// From here on violations are kept and the program goes on.
fn record() {
    contract::set_policy(Policy::Record);
}

/// The faults of a brick so far, as `tensor[index] rule`, `requires text`, `ensures text`.
fn faults(id: BrickId) -> Vec<String> {
    let violations = contract::violations().kept;
    let of_brick = violations
        .into_iter()
        .filter(|violation| violation.brick.name == id.name());
    of_brick
        .map(|violation| match violation.fault {
            Fault::Number {
                tensor,
                index,
                rule,
                ..
            } => format!("{tensor}[{index}] {rule}"),
            Fault::Requires { text } => format!("requires {text}"),
            Fault::Ensures { text } => format!("ensures {text}"),
            other => format!("{other:?}"),
        })
        .collect()
}

/// Exactly these faults with `visualization`, none without.
#[track_caller]
fn assert_faults(id: BrickId, expected: &[&str]) {
    let expected = if ON { expected } else { &[] };
    assert_eq!(faults(id), expected);
}

#[test]
fn every_brick_is_registered_once() {
    let mut names: Vec<&str> = BrickId::table().iter().map(|info| info.name).collect();
    assert_eq!(names.len(), BrickId::COUNT);
    assert_eq!(
        names,
        BrickId::ALL.iter().map(|id| id.name()).collect::<Vec<_>>()
    );
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), BrickId::COUNT);
}
