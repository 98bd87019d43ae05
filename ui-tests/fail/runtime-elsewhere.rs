brick_runtime::bricks!(crate = ::my_runtime);

fn main() {}
