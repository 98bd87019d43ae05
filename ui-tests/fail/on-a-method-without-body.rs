use brick_runtime::{brick, bricks};

bricks!();

trait Kernel {
    #[brick(id = Softmax)]
    fn softmax(&self);
}

fn main() {}
