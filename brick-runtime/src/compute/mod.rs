//! Bricks composed at run time: an operation with assertions, a budget and a backend.
//!
//! `#[brick]` is for functions that are known when the program is written. A [`ComputeBrick`]
//! wraps a value that implements [`ComputeOp`], records on the same hooks (so it is in the same
//! snapshots), and returns what is wrong as an error instead of following the violation policy.
//! A [`BrickLayer`] runs several in a row and names the slowest.
//!
//! ```
//! use brick_runtime::{Backend, BrickLayer, ComputeBrick, ComputeOp, OpError, Work};
//! use std::time::Duration;
//!
//! struct Scale(f32);
//!
//! impl ComputeOp for Scale {
//!     type Input = Vec<f32>;
//!     type Output = Vec<f32>;
//!     fn name(&self) -> &str {
//!         "Scale"
//!     }
//!     fn execute(&self, input: &Vec<f32>, _: Backend) -> Result<Vec<f32>, OpError> {
//!         Ok(input.iter().map(|x| x * self.0).collect())
//!     }
//!     fn work(&self, input: &Vec<f32>) -> Work {
//!         Work { flops: input.len() as u64, elements: input.len() as u64, ..Work::default() }
//!     }
//! }
//!
//! let brick = ComputeBrick::new(Scale(2.0)).assert_finite().budget(Duration::from_millis(1));
//! assert_eq!(brick.run(&vec![1.0, 2.0])?.output, [2.0, 4.0]);
//! assert!(!brick.verify(&vec![f32::MAX])?.passed()); // twice that is infinite
//!
//! let layer = BrickLayer::new(brick).then(ComputeBrick::new(Scale(0.5)));
//! let run = layer.run(&vec![1.0, 2.0])?;
//! assert_eq!(run.output, [1.0, 2.0]);
//! # Ok::<(), brick_runtime::BrickError>(())
//! ```

mod assertion;
mod brick;
mod layer;
mod op;
mod timing;

pub use self::assertion::{AssertionResult, Verification};
pub use self::brick::{BrickRun, ComputeBrick};
pub use self::layer::{BrickLayer, LayerRun, StageRun};
pub use self::op::{BrickError, ComputeOp, OpError, Work};
