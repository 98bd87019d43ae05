use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Print)]
unsafe extern "C" fn print(_format: *const u8, _args: ...) {}

fn main() {}
