use brick_runtime::{brick, bricks};

bricks!();

struct State;

impl State {
    #[brick(id = Step, assert = "no_nan")]
fn step(&mut self) {}
}

fn main() {}
