use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Nothing)]
#[unsafe(naked)]
extern "C" fn nothing() {
    core::arch::naked_asm!("ret")
}

fn main() {}
