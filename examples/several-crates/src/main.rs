//! Bricks of several crates in one report.
//!
//! ```console
//! $ cargo run --release -p several-crates
//! ```
//!
//! Each library says `bricks!()` at its root and has its own `BrickId`. What they record comes
//! together by itself: the profiler is one per process.

use brick_runtime::BrickProfiler;
use several_crates_activations::silu;
use several_crates_norms::rms_norm;

fn main() {
    let mut x = vec![0.5; 4096];
    for _ in 0..20 {
        rms_norm(&mut x);
        silu(&mut x);
    }
    let snapshot = BrickProfiler::global().snapshot();
    println!("{}", snapshot.table());
}
