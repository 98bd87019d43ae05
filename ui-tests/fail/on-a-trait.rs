use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Softmax)]
trait Softmax {
    fn run(&self) {}
}

fn main() {}
