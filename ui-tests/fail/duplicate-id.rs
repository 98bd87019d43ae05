use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Softmax)]
fn softmax() {}

#[brick(id = Softmax)]
fn log_softmax() {}

fn main() {}
