use brick_runtime::{brick, bricks};

bricks!();

#[brick(budget_us = 0, flop = 1, assert = "nonan", assert(o = "range(5, 1)"))]
fn softmax(x: &mut [f32]) {
    x.fill(0.0);
}

fn main() {}
