use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Sum)]
fn sum(x: &[f32]) -> f32 {
    x.iter().sum::<f32>();
}

fn main() {}
