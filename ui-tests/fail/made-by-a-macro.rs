use brick_runtime::{brick, bricks};

bricks!();

macro_rules! kernel {
    ($id:ident, $name:ident) => {
        #[brick(id = $id)]
        fn $name() {}
    };
}

kernel!(Softmax, softmax);

fn main() {}
