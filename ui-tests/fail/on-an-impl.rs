use brick_runtime::{brick, bricks};

bricks!();

struct Kernel;

#[brick(id = Softmax)]
impl Kernel {}

fn main() {}
