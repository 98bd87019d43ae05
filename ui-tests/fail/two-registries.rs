use brick_runtime::{brick, bricks};

bricks!();

mod kernels {
    brick_runtime::bricks!();
}

#[brick(id = Softmax)]
fn softmax() {}

fn main() {}
