use brick_runtime::brick;

#[brick(id = Softmax)]
fn softmax() {}

fn main() {}
