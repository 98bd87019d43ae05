//! Bricks that are put together while the program runs: `ComputeBrick` wraps an operation,
//! `BrickLayer` runs several in a row.
//!
//! ```console
//! $ cargo run --release -p composing-at-run-time
//! Linear, Relu: 2s together
//! budget met: Some(true), slowest: Some("Linear")
//! 256 numbers, all 0.64
//! output: finite: holds
//! output: equivalent to its baseline within 0.000001: holds
//! brick `Linear` broke its contract `output: no_nan`
//!   at examples/composing-at-run-time/src/main.rs:98
//!   first at output[0] = NaN
//!   no finite number; 256 NaN, 0 infinite
//! brick `Linear` failed: 16384 weights are not 256 × 63
//! brick   calls  mean µs  total ms  % of wall  p50 µs  p99 µs  over budget  GB/s*  GFLOP/s*
//! Linear    102     5.87     0.599       65.7    5.90    6.01            0   11.2      5.58
//! Relu      100    0.118     0.012        1.3   0.099   0.156            0      –         –
//! bricks cover 67.0 % of 0.912 ms wall
//! profiler: 202 hooks × 22 ns (measured) = 0.50 %
//! contracts: 201 results checked, 1.35 % (measured)
//! measured: calls, total, p50 and p99 (at most 6.25 % off), over budget; derived: mean, %, * from declared work
//! ```
//!
//! They record on the same hooks as annotated functions and stand in the same table. What is wrong
//! comes back as an error; no policy is asked.

use std::time::Duration;

use brick_runtime::{
    Backend, BrickError, BrickLayer, BrickProfiler, ComputeBrick, ComputeOp, OpError, Work,
};

/// `out = w · x`: `w` is `[rows, x.len()]`.
struct Linear {
    w: Vec<f32>,
    rows: usize,
}

impl ComputeOp for Linear {
    type Input = Vec<f32>;
    type Output = Vec<f32>;

    fn name(&self) -> &str {
        "Linear"
    }

    fn execute(&self, x: &Vec<f32>, _: Backend) -> Result<Vec<f32>, OpError> {
        if self.w.len() != self.rows * x.len() {
            return Err(format!(
                "{} weights are not {} × {}",
                self.w.len(),
                self.rows,
                x.len()
            )
            .into());
        }
        Ok(self
            .w
            .chunks_exact(x.len())
            .map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum())
            .collect())
    }

    fn work(&self, _: &Vec<f32>) -> Work {
        let n = self.w.len() as u64;
        Work {
            flops: 2 * n,
            bytes: 4 * n,
            tokens: 1,
            ..Work::default()
        }
    }
}

/// `max(x, 0)`.
struct Relu;

impl ComputeOp for Relu {
    type Input = Vec<f32>;
    type Output = Vec<f32>;

    fn name(&self) -> &str {
        "Relu"
    }

    fn execute(&self, x: &Vec<f32>, _: Backend) -> Result<Vec<f32>, OpError> {
        Ok(x.iter().map(|v| v.max(0.0)).collect())
    }
}

fn main() -> Result<(), BrickError> {
    let up = || Linear {
        w: vec![0.01; 64 * 256],
        rows: 256,
    };
    let second = Duration::from_secs(1);
    let block = BrickLayer::new(ComputeBrick::new(up()).assert_finite().budget(second)).then(
        ComputeBrick::new(Relu)
            .assert_bounds(0.0, 1e6)
            .budget(second),
    );
    println!(
        "{}: {:?} together",
        block.bricks().collect::<Vec<_>>().join(", "),
        block.budget().unwrap_or_default()
    );

    let x = vec![1.0; 64];
    let mut output = Vec::new();
    for layer in 0..100 {
        let run = block.run(&x)?;
        if layer == 99 {
            println!(
                "budget met: {:?}, slowest: {:?}",
                run.budget_met(),
                run.bottleneck().map(|stage| stage.brick.as_str())
            );
        }
        output = run.output;
    }
    println!("{} numbers, all {:.2}", output.len(), output[0]);

    // Against another way to compute the same, on demand and unrecorded.
    let brick = ComputeBrick::new(up())
        .assert_finite()
        .assert_equivalent(1e-6, |x| Ok(vec![0.01 * x.iter().sum::<f32>(); 256]));
    for assertion in brick.verify(&x)?.assertions {
        println!(
            "{}: {}",
            assertion.assertion,
            if assertion.fault.is_none() {
                "holds"
            } else {
                "broken"
            }
        );
    }

    // A NaN, and a wrong shape.
    for bad in [vec![f32::NAN; 64], vec![1.0; 63]] {
        match block.run(&bad) {
            Ok(_) => println!("nothing was checked"),
            Err(error) => println!("{error}"),
        }
    }
    println!("{}", BrickProfiler::global().snapshot().table());
    Ok(())
}
