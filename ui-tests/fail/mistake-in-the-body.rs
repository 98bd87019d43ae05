use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Sum)]
fn sum(x: &[f32]) -> f32 {
    let total: f32 = x.len();
    total
}

fn main() {}
