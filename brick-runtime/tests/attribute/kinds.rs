//! Every kind of function is timed as one call and returns what it did.

use std::fmt::Display;

use brick_runtime::brick;

use crate::{BrickId, calls};

trait Kernel {
    const SCALE: f32;

    #[brick(id = KindDefault)]
    fn run(&self, x: f32) -> f32
    where
        Self: Sized,
    {
        x * Self::SCALE
    }

    fn by_ref(&mut self) -> &mut f32;
}

struct Twice<'a, T, const N: usize>(&'a [T; N], f32);

impl<T: Display, const N: usize> Kernel for Twice<'_, T, { N }> {
    const SCALE: f32 = 2.0;

    #[brick(id = KindMethod)]
    fn by_ref(&mut self) -> &mut f32 {
        self.1 = self.0.len() as f32;
        &mut self.1
    }
}

#[test]
fn methods_and_defaults_of_traits() {
    let mut twice = Twice(&["a", "b", "c"], 0.0);
    assert_eq!((twice.run(4.0), *twice.by_ref()), (8.0, 3.0));
    assert_eq!(
        (
            calls(BrickId::KindDefault, 1),
            calls(BrickId::KindMethod, 1)
        ),
        (1, 1)
    );
}

#[brick(id = KindImplTrait)]
fn labels(n: u32, label: impl Display) -> Result<impl Iterator<Item = String>, std::fmt::Error> {
    use std::fmt::Write;
    let mut text = String::new();
    write!(text, "{label}")?;
    Ok((0..n).map(move |n| format!("{text}{n}")))
}

#[test]
fn unnamed_types() {
    assert_eq!(labels(2, 'x').unwrap().collect::<Vec<_>>(), ["x0", "x1"]);
    assert_eq!(calls(BrickId::KindImplTrait, 1), 1);
}

#[brick(id = KindLifetimes)]
fn longest<'a: 'b, 'b>(x: &'a mut [f32], y: &'b [f32]) -> &'b [f32] {
    if x.len() > y.len() { x } else { y }
}

#[test]
fn returned_reborrows() {
    assert_eq!(longest(&mut [1.0, 2.0], &[3.0]), [1.0, 2.0]);
    assert_eq!(calls(BrickId::KindLifetimes, 1), 1);
}

#[brick(id = KindExtern, requires = !x.is_null())]
unsafe extern "C" fn read(x: *const f32) -> f32 {
    // SAFETY: the caller gives a pointer to a float.
    unsafe { *x }
}

#[test]
fn unsafe_extern_functions() {
    let read: unsafe extern "C" fn(*const f32) -> f32 = read;
    // SAFETY: a reference is a valid pointer.
    assert_eq!(unsafe { read(&7.0) }, 7.0);
    assert_eq!(calls(BrickId::KindExtern, 1), 1);
}

#[cfg(target_arch = "x86_64")]
#[brick(id = KindFeatures)]
#[target_feature(enable = "avx2")]
fn doubled(x: &mut [f32]) {
    x.iter_mut().for_each(|x| *x *= 2.0);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn target_features() {
    if !is_x86_feature_detected!("avx2") {
        return;
    }
    let mut x = [1.0, 2.0];
    // SAFETY: AVX2 was detected.
    unsafe { doubled(&mut x) };
    assert_eq!(x, [2.0, 4.0]);
    assert_eq!(calls(BrickId::KindFeatures, 1), 1);
}

#[brick(id = KindPatterns)]
fn patterns((a, _): (f32, u8), [b, ..]: [f32; 2], mut c: f32, &d: &f32) -> f32 {
    c += a;
    c + b + d
}

#[test]
fn patterns_in_parameters() {
    assert_eq!(patterns((1.0, 0), [2.0, 0.0], 3.0, &4.0), 10.0);
    assert_eq!(calls(BrickId::KindPatterns, 1), 1);
}

#[test]
fn functions_in_blocks() {
    let triple = {
        #[brick(id = KindNested)]
        fn triple(x: u32) -> u32 {
            3 * x
        }
        triple
    };
    assert_eq!([1, 2].map(triple), [3, 6]);
    assert_eq!(calls(BrickId::KindNested, 2), 2);
}

macro_rules! kernel {
    ($id:ident, $name:ident, $x:ident, $($body:tt)*) => {
        #[brick(id = $id, flops = 1, budget_us = 5)]
        fn $name($x: f32) -> f32 {
            $($body)*
        }
    };
}

kernel!(FromMacro, half, x, x / 2.0);

#[test]
fn functions_made_by_macros() {
    assert_eq!(half(3.0), 1.5);
    assert_eq!(calls(BrickId::FromMacro, 1), 1);
    assert_eq!(BrickId::FromMacro.info().function, "half");
}
