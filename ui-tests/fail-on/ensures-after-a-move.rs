use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Take, ensures = |ret| *ret == x.len())]
fn take(x: Vec<f32>) -> usize {
    x.into_iter().count()
}

fn main() {}
