use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = First, assert = "no_nan")]
fn first(x: &mut [f32]) -> &mut f32 {
    &mut x[0]
}

fn main() {}
