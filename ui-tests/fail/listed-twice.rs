use brick_runtime::{brick, bricks};

bricks! { Softmax, Softmax }

#[brick(id = Softmax)]
fn softmax() {}

fn main() {}
