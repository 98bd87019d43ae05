//! All arguments, in all their forms.

#![deny(warnings)]

use brick_runtime::{Backend, Budget, brick, bricks};

bricks!();

const WIDTH: usize = 4;

#[brick(
    id = Everything,
    category = "Attention",
    budget_us = 2_000.5,
    assert = ["no_nan", "range(-1.5, 1e3)"],
    assert(out = "no_inf", return = "finite"),
    requires = x.len() == out.len() && std::mem::size_of_val::<[f32]>(x) % WIDTH == 0,
    ensures = |ret: &f32| *ret >= 0.0 || x.is_empty(),
    flops = 2 * x.len(),
    bytes = std::mem::size_of_val(x) + std::mem::size_of_val(out),
    tokens = x.len() as f64 / 2.0,
    elements = <[f32]>::len(x),
    layer = layer,
)]
fn everything(x: &[f32], out: &mut [f32], layer: u32) -> f32 {
    out.copy_from_slice(x);
    x.iter().map(|value| value * value).sum()
}

#[brick(id = Everything, backend = Avx2, budget_us = 3 * x.len() + 1)]
fn everything_avx2(x: &[f32]) -> f32 {
    x.iter().sum()
}

fn main() {
    everything(&[1.0], &mut [0.0], 3);
    everything_avx2(&[1.0]);
    let info = BrickId::Everything.info();
    assert_eq!((info.name, info.category, info.function), ("Everything", "Attention", "everything"));
    assert_eq!((info.line, info.backend, info.budget), (25, Backend::Primary, Budget::Fixed { ns: 2_000_500 }));
    let checks: Vec<&str> = info.checks.iter().collect();
    assert_eq!(checks[1..], ["out: finite, range(-1.5, 1000)", "return: finite, range(-1.5, 1000)", "ensures |ret: &f32| *ret >= 0.0 || x.is_empty()"]);
    assert_eq!(checks[0], "requires x.len() == out.len() && std::mem::size_of_val::<[f32]>(x) % WIDTH == 0");
}
