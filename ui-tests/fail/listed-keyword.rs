use brick_runtime::bricks;

bricks! { Softmax, fn }

fn main() {}
