use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Sum, ensures = |ret| *ret)]
fn sum(x: &[f32]) -> f32 {
    x.iter().sum()
}

fn main() {}
