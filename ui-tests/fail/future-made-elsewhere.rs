use brick_runtime::{brick, bricks};

bricks!();

#[brick(id = Load)]
fn load(path: String) -> impl Future<Output = usize> {
    load_inner(path)
}

async fn load_inner(path: String) -> usize {
    path.len()
}

fn main() {}
