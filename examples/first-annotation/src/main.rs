//! One annotated kernel, its budget and its row in the table.
//!
//! ```console
//! $ cargo run --release -p first-annotation
//! brick    calls  mean µs  total ms  % of wall  p50 µs  p99 µs  over budget  GB/s*  GFLOP/s*
//! Softmax   1000    0.978     0.978       76.9   0.974    1.00            0      –      1.31
//! bricks cover 76.9 % of 1.27 ms wall
//! profiler: 1000 hooks × 23 ns (measured) = 1.77 %
//! contracts: 1000 results checked, 3.20 % (measured)
//! measured: calls, total, p50 and p99 (at most 6.25 % off), over budget; derived: mean, %, * from declared work
//! ```
//!
//! Without the feature `visualization` (here a default feature) the attribute is gone from the
//! machine code, and the report says why it is empty:
//!
//! ```console
//! $ cargo run --release -p first-annotation --no-default-features
//! no bricks: built without `visualization`
//! ```

use brick_runtime::{BrickProfiler, brick};

// Once per crate, at its root: makes `BrickId` from the annotations below.
brick_runtime::bricks!();

/// Softmax of one row, in place.
#[brick(id = Softmax, budget_us = 50, assert = "finite", flops = 5 * x.len())]
fn softmax(x: &mut [f32]) {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    x.iter_mut().for_each(|v| *v = (*v - max).exp());
    let sum: f32 = x.iter().sum();
    x.iter_mut().for_each(|v| *v /= sum);
}

fn main() {
    let mut row: Vec<f32> = (0..256).map(|i| i as f32 / 64.0).collect();
    for _ in 0..1000 {
        softmax(&mut row);
    }
    println!("{}", BrickProfiler::global().snapshot().table());
}
