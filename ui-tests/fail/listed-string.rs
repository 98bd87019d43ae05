use brick_runtime::bricks;

bricks! { "Softmax" }

fn main() {}
