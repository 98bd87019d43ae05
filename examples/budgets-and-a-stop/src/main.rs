//! Budgets that are missed, and the three things that a broken contract can lead to.
//!
//! ```console
//! $ cargo run --release -p budgets-and-a-stop
//! 8 calls, 3 over budget
//! stopped: brick `Reciprocal` broke its contract `x: no_inf`
//!   at examples/budgets-and-a-stop/src/main.rs:38, layer 2, position 7
//!   first at x[2] = inf
//!   min 0.25, max 0.5, mean 0.375, std 0.125; 0 NaN, 2 infinite
//! recorded 4
//! the last: a caller of brick `Reciprocal` broke its contract `requires !x.is_empty()`
//!   at examples/budgets-and-a-stop/src/main.rs:38
//! the handler saw 2
//! ```
//!
//! A missed budget is counted, never more. A broken contract stops the program unless it says
//! otherwise: the panic carries the `Violation`.

use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::Duration;

use brick_runtime::contract::{self, Policy};
use brick_runtime::{BrickProfiler, Violation, brick, layer_scope, position_scope};

brick_runtime::bricks!();

/// A budget can depend on the call.
#[brick(id = Wait, budget_us = 1000 * allowed_ms)]
fn wait(ms: u64, allowed_ms: u64) {
    sleep(Duration::from_millis(ms));
}

/// `1 / x`, element by element.
#[brick(id = Reciprocal, budget_us = 1000, requires = !x.is_empty(), assert = "finite")]
fn reciprocal(x: &mut [f32]) {
    x.iter_mut().for_each(|v| *v = 1.0 / *v);
}

fn main() {
    budgets();
    stop();
    record();
    handler();
}

fn budgets() {
    for _ in 0..5 {
        wait(1, 60_000);
    }
    for _ in 0..3 {
        wait(20, 10);
    }
    if let Some(stats) = BrickProfiler::global().brick_stats(BrickId::Wait) {
        println!(
            "{} calls, {} over budget",
            stats.calls(),
            stats.over_budget()
        );
    }
}

/// The policy at start.
fn stop() {
    let caught = catch_unwind(|| {
        let (_layer, _position) = (layer_scope(2), position_scope(7));
        reciprocal(&mut [4.0, 2.0, 0.0, 0.0]);
    });
    match caught {
        Err(payload) => match payload.downcast_ref::<Violation>() {
            Some(violation) => println!("stopped: {violation}"),
            None => println!("another panic"),
        },
        Ok(()) => println!("nothing was checked"),
    }
}

/// Go on, and look later.
fn record() {
    contract::clear_violations();
    contract::set_policy(Policy::Record);
    for _ in 0..3 {
        reciprocal(&mut [0.0]);
    }
    reciprocal(&mut []);
    let violations = contract::violations();
    println!("recorded {}", violations.total);
    if let Some(last) = violations.kept.last() {
        println!("the last: {last}");
    }
}

/// A function of the program's own: it may log, count, or panic.
fn handler() {
    let seen = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&seen);
    contract::set_policy(Policy::Handler(Arc::new(move |_: &Violation| {
        count.fetch_add(1, Relaxed);
    })));
    // One call in four is checked: the first and the fifth.
    contract::set_sampling(4);
    for _ in 0..8 {
        reciprocal(&mut [0.0]);
    }
    println!("the handler saw {}", seen.load(Relaxed));
}
