use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Softmax, assert = "no_nan")]
fn softmax([a, b]: &mut [f32; 2]) {
    *a = *b;
}

fn main() {}
