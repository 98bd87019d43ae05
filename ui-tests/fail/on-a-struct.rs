use brick_runtime::{brick, bricks};

bricks! { Softmax }

#[brick(id = Softmax)]
struct Softmax;

fn main() {}
