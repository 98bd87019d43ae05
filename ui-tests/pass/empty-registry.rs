//! A crate that has no bricks yet.

use brick_runtime::bricks;

bricks!();

fn main() {
    assert_eq!(BrickId::COUNT, 0);
    assert!("Softmax".parse::<BrickId>().is_err());
}
