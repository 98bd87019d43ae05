use brick_runtime::{brick, bricks};

bricks!();

struct Scratch(Vec<String>);

#[brick(id = Softmax, assert = "no_nan")]
fn softmax(x: &mut [f32], scratch: &mut Scratch) {
    scratch.0.push(format!("{x:?}"));
}

fn main() {}
