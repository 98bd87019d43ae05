//! Bricks of several crates in one report.
//!
//! ```console
//! $ cargo run --release -p several-crates
//! several_crates_activations::Silu (Activation): `x · sigmoid(x)`, element by element.
//! several_crates_activations::Relu (Activation): `max(x, 0)`, element by element.
//! several_crates_norms::RmsNorm (Norm): Divides by the root mean square.
//!
//! brick    calls  mean µs  total ms  % of wall  p50 µs  p99 µs  over budget  GB/s*  GFLOP/s*
//! Silu        20     10.9     0.219        5.2    10.5    23.3            0      –         –
//! RmsNorm     20     3.00     0.060        1.4    2.95    4.74            0      –         –
//! Relu         0        –      0.00        0.0       –       –            0      –         –
//! bricks cover 6.6 % of 4.20 ms wall
//! profiler: 40 hooks × 23 ns (measured) = 0.02 %
//! contracts: 40 results checked, 0.38 % (measured)
//! p50, p99: at most 6.25 % off. * derived: declared work over measured time
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
