use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Softmax)]
const SOFTMAX: f32 = 1.0;

fn main() {}
