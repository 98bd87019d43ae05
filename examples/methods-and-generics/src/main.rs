//! What can be annotated besides plain functions: methods, trait defaults, generics, functions
//! that return early, functions that recurse.
//!
//! ```console
//! $ cargo run --release -p methods-and-generics
//! dot product of integers: 32
//! pairwise sum: 16
//! a row of 3
//! no row: invalid float literal
//! RmsNorm      calls 10  recursive  0  elements 40  flops  0  bytes  0
//! Activate     calls  2  recursive  0  elements  8  flops  0  bytes  0
//! Dot          calls  2  recursive  0  elements  0  flops 14  bytes  0
//! PairwiseSum  calls 15  recursive 14  elements  0  flops  0  bytes  0
//! ParseRow     calls  2  recursive  0  elements  0  flops  0  bytes 12
//! ```
//!
//! A generic function is one brick, whatever it is instantiated with. A call inside of a call of
//! the same brick counts as recursive and is timed as part of the outer one, so the total never
//! holds the same nanosecond twice. `?` and `return` are exits like any other: the row that
//! could not be read counts as a call.

use std::num::ParseFloatError;
use std::ops::{AddAssign, Mul};

use brick_runtime::{BrickProfiler, brick};

brick_runtime::bricks!();

struct RmsNorm<const N: usize> {
    weight: [f32; N],
}

impl<const N: usize> RmsNorm<N> {
    /// Parameters and `self` can be used in the attribute.
    #[brick(id = RmsNorm, budget_us = 1000, elements = self.weight.len(), assert(x = "finite"))]
    fn apply(&self, x: &mut [f32; N]) {
        let mean_square = x.iter().map(|v| v * v).sum::<f32>() / N as f32;
        let scale = 1.0 / (mean_square + 1e-6).sqrt();
        x.iter_mut()
            .zip(&self.weight)
            .for_each(|(v, w)| *v *= scale * w);
    }
}

trait Activation {
    fn one(&self, x: f32) -> f32;

    /// A default that every implementation inherits: one brick for all of them.
    #[brick(id = Activate, budget_us = 1000, elements = x.len())]
    fn all(&self, x: &mut [f32]) {
        x.iter_mut().for_each(|v| *v = self.one(*v));
    }
}

struct Relu;
struct Silu;

impl Activation for Relu {
    fn one(&self, x: f32) -> f32 {
        x.max(0.0)
    }
}

impl Activation for Silu {
    fn one(&self, x: f32) -> f32 {
        x / (1.0 + (-x).exp())
    }
}

/// Generic over the number.
#[brick(id = Dot, budget_us = 1000, flops = 2 * a.len(), requires = a.len() == b.len())]
fn dot<T: Copy + Default + AddAssign + Mul<Output = T>>(a: &[T], b: &[T]) -> T {
    let mut sum = T::default();
    for (&a, &b) in a.iter().zip(b) {
        sum += a * b;
    }
    sum
}

/// `ensures` sees what was returned, `?` included.
#[brick(id = ParseRow, budget_us = 1000, bytes = text.len(), ensures = |row| row.is_err() || text.contains(char::is_numeric))]
fn parse_row(text: &str) -> Result<Vec<f32>, ParseFloatError> {
    let mut row = Vec::new();
    for word in text.split_whitespace() {
        row.push(word.parse()?);
    }
    Ok(row)
}

/// Halves until eight are left: the rounding error grows with the logarithm of the length.
#[brick(id = PairwiseSum, budget_us = 1000)]
fn pairwise_sum(x: &[f32]) -> f32 {
    if x.len() <= 8 {
        return x.iter().sum();
    }
    let (left, right) = x.split_at(x.len() / 2);
    pairwise_sum(left) + pairwise_sum(right)
}

fn main() {
    let mut x = [0.5, -1.0, 1.5, -2.0];
    let norm = RmsNorm { weight: [1.0; 4] };
    for _ in 0..10 {
        norm.apply(&mut x);
    }
    Relu.all(&mut x);
    Silu.all(&mut x);
    dot(&x, &x);
    println!(
        "dot product of integers: {}",
        dot(&[1_i64, 2, 3], &[4, 5, 6])
    );
    println!("pairwise sum: {}", pairwise_sum(&[0.25; 64]));
    for row in ["1 2 3", "1 two 3"].map(parse_row) {
        match row {
            Ok(row) => println!("a row of {}", row.len()),
            Err(error) => println!("no row: {error}"),
        }
    }

    let snapshot = BrickProfiler::global().snapshot();
    for brick in snapshot.bricks() {
        println!(
            "{:12} calls {:2}  recursive {:2}  elements {:2}  flops {:2}  bytes {:2}",
            brick.info().name,
            brick.calls(),
            brick.recursive(),
            brick.elements(),
            brick.flops(),
            brick.bytes(),
        );
    }
}
