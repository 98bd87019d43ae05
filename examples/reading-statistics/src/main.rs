//! Everything a snapshot knows, read in code and as JSON.
//!
//! ```console
//! $ cargo run --release -p reading-statistics
//! 100 tokens, 0 calls could not be recorded
//! Gemv: 300 calls, 2457600 flops, 4915200 bytes
//!   mean 1.46 µs, deviation 0.9 %
//!   p99 1.50 µs, surely within 1.45 µs to 1.50 µs
//!   layer 0: 100 calls, 146.85 µs
//!   layer 1: 100 calls, 145.44 µs
//!   layer 2: 100 calls, 145.41 µs
//!   GFLOP/s: 5.615 (derived from declared flops / measured time)
//!   budget / time: 3427.019 (derived from declared budget / measured time)
//!   GFLOP/s of Forward: n/a (unavailable: no `flops` declared)
//! Forward without its Gemv: 3.6 % of its time
//! 8675805047277806120: {"and_above":false,"layer":2,"time":{"count":100,"max_ns":null,"min_ns":null,"total_ns":145413.01431808612}}
//! ```

use brick_runtime::{BrickProfiler, Figure, brick, layer_scope};

brick_runtime::bricks!();

const LAYERS: u64 = 3;

/// `out = w · x`: `w` is `[out.len(), x.len()]`.
#[brick(
    id = Gemv,
    budget_us = 5000,
    flops = 2 * w.len(),
    bytes = 4 * w.len(),
    requires = w.len() == out.len() * x.len(),
    assert = "finite"
)]
fn gemv(w: &[f32], x: &[f32], out: &mut [f32]) {
    for (out, row) in out.iter_mut().zip(w.chunks_exact(x.len())) {
        *out = row.iter().zip(x).map(|(w, x)| w * x).sum();
    }
}

/// The whole of a token; its own time is what is left when the bricks it calls are taken out.
#[brick(id = Forward, budget_us = 50_000)]
fn forward(w: &[f32], x: &mut [f32]) {
    let mut out = vec![0.0; x.len()];
    for layer in 0..LAYERS {
        let _layer = layer_scope(layer);
        gemv(w, x, &mut out);
        x.copy_from_slice(&out);
    }
    BrickProfiler::global().add_tokens(1);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let profiler = BrickProfiler::global();
    let w = vec![1.0 / 64.0; 64 * 64];
    let mut x = vec![1.0; 64];
    forward(&w, &mut x); // touches the memory for the first time
    let warm = profiler.snapshot();
    for _ in 0..100 {
        forward(&w, &mut x);
    }
    // What happened since: the warm-up is in neither counts nor times.
    let measured = profiler.snapshot().since(&warm);
    if let Some(why) = measured.unavailable() {
        println!("no figures: {why}");
        return Ok(());
    }
    println!(
        "{} tokens, {} calls could not be recorded",
        measured.total_tokens(),
        measured.dropped()
    );

    // An id by its name, as from a command line.
    let id: BrickId = "Gemv".parse()?;
    let Some(gemv) = measured.brick(id) else {
        println!("{id} was not called");
        return Ok(());
    };
    println!(
        "{id}: {} calls, {} flops, {} bytes",
        gemv.calls(),
        gemv.flops(),
        gemv.bytes()
    );
    println!(
        "  mean {:.2} µs, deviation {:.1} %",
        ns(gemv.mean_ns()) / 1e3,
        100.0 * ns(gemv.cv())
    );

    // A percentile comes with the bucket that holds the exact one.
    if let Some(p99) = gemv.percentile(0.99) {
        println!(
            "  p99 {:.2} µs, surely within {:.2} µs to {:.2} µs",
            p99.ns / 1e3,
            p99.low_ns / 1e3,
            p99.high_ns / 1e3
        );
    }
    for layer in gemv.layers() {
        println!(
            "  layer {}: {} calls, {:.2} µs",
            layer.layer,
            layer.time.count,
            layer.time.total_ns / 1e3
        );
    }

    // A figure says where it comes from, or why it is missing.
    print_figure("GFLOP/s", &gemv.gflop_per_s());
    print_figure("budget / time", &gemv.efficiency());
    if let Some(forward) = measured.brick(BrickId::Forward) {
        print_figure("GFLOP/s of Forward", &forward.gflop_per_s());
        println!(
            "Forward without its Gemv: {:.1} % of its time",
            100.0 * forward.self_ns() / forward.total_ns()
        );
    }

    // The same as JSON, with the feature `serde`.
    let json = serde_json::to_value(gemv)?;
    println!("{}: {}", json["brick"]["wire_id"], json["layers"][2]);
    Ok(())
}

fn ns(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn print_figure(name: &str, figure: &Figure) {
    println!("  {name}: {figure:.3} ({})", figure.provenance());
}
