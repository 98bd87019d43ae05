mod kernels {
    use brick_runtime::{brick, bricks};

    bricks!();

    #[brick(id = Softmax)]
    fn softmax() {}
}

fn main() {}
