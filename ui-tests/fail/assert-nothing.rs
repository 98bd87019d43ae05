use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Show, assert = "no_nan")]
fn show(x: &[f32]) {
    println!("{x:?}");
}

fn main() {}
