use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Abort, ensures = |ret| true)]
fn abort() -> ! {
    std::process::abort()
}

fn main() {}
