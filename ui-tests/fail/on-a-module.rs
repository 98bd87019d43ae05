use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Softmax)]
mod softmax {}

fn main() {}
