use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Sum, ensures = ret.is_finite())]
fn sum(x: &[f32]) -> f32 {
    x.iter().sum()
}

fn main() {}
