use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Name, assert = "no_nan")]
fn name(x: &[f32]) -> String {
    format!("{x:?}")
}

fn main() {}
