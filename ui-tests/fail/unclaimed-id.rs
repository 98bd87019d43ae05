use brick_runtime::{brick, bricks};

bricks! { Softmax, AttentionScore }

#[brick(id = Softmax)]
fn softmax() {}

fn main() {}
