//! Bricks of several crates in one report.
//!
//! ```console
//! $ cargo run --release -p several-crates
//! several_crates_activations::Silu (Activation): `x · sigmoid(x)`, element by element.
//! several_crates_activations::Relu (Activation): `max(x, 0)`, element by element.
//! several_crates_norms::RmsNorm (Norm): Divides by the root mean square.
//!
//! brick    calls  mean µs  total ms  % of wall  p50 µs  p99 µs  over budget  GB/s*  GFLOP/s*
//! Silu        20     10.7     0.213       41.8    10.1    23.3            0      –         –
//! RmsNorm     20     2.82     0.056       11.0    2.85    3.01            0      –         –
//! Relu         0        –      0.00        0.0       –       –            0      –         –
//! bricks cover 52.8 % of 0.511 ms wall
//! profiler: 40 hooks × 22 ns (measured) = 0.18 %
//! contracts: 40 results checked, 3.05 % (measured)
//! measured: calls, total, p50 and p99 (at most 6.25 % off), over budget; derived: mean, %, * from declared work
//! ```
//!
//! Each library says `bricks!()` at its root and has its own `BrickId`. What they record comes
//! together by itself: the profiler is one per process. A `Registry` over the libraries knows the
//! bricks that were never called, too.

use brick_runtime::{BrickProfiler, Registry};
use several_crates_activations::{BrickId as Activations, silu};
use several_crates_norms::{BrickId as Norms, rms_norm};

fn main() {
    let mut x = vec![0.5; 4096];
    for _ in 0..20 {
        rms_norm(&mut x);
        silu(&mut x);
    }

    let registry = Registry::of::<Activations>().and::<Norms>();
    for brick in registry.bricks() {
        println!(
            "{}::{} ({}): {}",
            brick.crate_name, brick.name, brick.category, brick.doc
        );
    }
    let snapshot = registry.complete(BrickProfiler::global().snapshot());
    println!("\n{}", snapshot.table());
}
