#![deny(unused_variables)]

use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Sum)]
fn sum(x: &[f32], y: &[f32]) -> f32 {
    x.iter().sum()
}

fn main() {}
