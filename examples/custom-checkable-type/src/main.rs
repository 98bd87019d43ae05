//! A type of your own under `assert`: implement `Check`, one method.
//!
//! ```console
//! $ cargo run --release -p custom-checkable-type
//! 4 calls, 4 checked
//! brick `CacheWrite` broke its contract `cache.values: no_inf`
//!   at examples/custom-checkable-type/src/main.rs:52, position 3
//!   first at cache.values[12] = inf
//!   min 0.33333334, max 1, mean 0.6111111, std 0.28327885; 0 NaN, 4 infinite
//! ```
//!
//! Without the `impl` this does not compile: `assert` never skips what it cannot look at. The parts
//! carry their names into the diagnosis, and only the filled places are looked at: behind `len` the
//! cache holds NaN on purpose.

use brick_runtime::contract::{self, Policy};
use brick_runtime::{BrickProfiler, Check, Checker, brick, position_scope};

brick_runtime::bricks!();

/// Keys and values of the positions so far, `[capacity, head_dim]` each.
struct Cache {
    head_dim: usize,
    keys: Vec<f32>,
    values: Vec<f32>,
    /// Positions that are filled.
    len: usize,
}

impl Check for Cache {
    fn check(&self, checker: &mut Checker<'_>) {
        let filled = self.len * self.head_dim;
        checker.part("keys", &self.keys[..filled]);
        checker.part("values", &self.values[..filled]);
    }
}

impl Cache {
    fn new(capacity: usize, head_dim: usize) -> Cache {
        let empty = vec![f32::NAN; capacity * head_dim];
        Cache {
            head_dim,
            keys: empty.clone(),
            values: empty,
            len: 0,
        }
    }
}

/// Appends one position.
#[brick(id = CacheWrite, budget_us = 1000, assert(cache = "finite"), bytes = 4 * (key.len() + value.len()))]
fn write(cache: &mut Cache, key: &[f32], value: &[f32]) {
    let at = cache.len * cache.head_dim..(cache.len + 1) * cache.head_dim;
    cache.keys[at.clone()].copy_from_slice(key);
    cache.values[at].copy_from_slice(value);
    cache.len += 1;
}

fn main() {
    contract::set_policy(Policy::Record);
    let mut cache = Cache::new(16, 4);
    for position in 0..4 {
        let _position = position_scope(position);
        // The value of the last position divides by zero.
        let value = [1.0 / (3.0 - position as f32); 4];
        write(&mut cache, &[0.5; 4], &value);
    }
    match BrickProfiler::global().brick_stats(BrickId::CacheWrite) {
        Some(stats) => println!("{} calls, {} checked", stats.calls(), stats.checks().count),
        None => println!("nothing was recorded"),
    }
    for violation in contract::violations().kept {
        println!("{violation}");
    }
}
