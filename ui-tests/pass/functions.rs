//! Every kind of function, under lints that would tell of a change.

#![deny(warnings, missing_docs, unused_qualifications, unreachable_pub, unsafe_op_in_unsafe_fn)]

use std::fmt::Display;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use brick_runtime::{brick, bricks};

bricks!();

trait Kernel {
    const FLOOR: f32;

    #[brick(id = TraitDefault, ensures = |ret| *ret >= Self::FLOOR)]
    fn run(&mut self, x: &[f32]) -> f32
    where
        Self: Sized,
    {
        x.iter().sum::<f32>().max(Self::FLOOR)
    }

    async fn load(&self) -> f32;
}

struct Scale<'a, T, const N: usize>(&'a [T; N], usize);

impl<T: Copy + Into<f32>, const N: usize> Kernel for Scale<'_, T, { N }> {
    const FLOOR: f32 = 0.5;

    #[brick(id = AsyncMethod, elements = N)]
    async fn load(&self) -> f32 {
        self.0.iter().map(|&value| value.into()).sum()
    }
}

impl<'a, T, const N: usize> Scale<'a, T, N> {
    #[brick(id = Counted, ensures = |ret| *ret == self.1 as f32, assert(return = "finite"))]
    fn count(&mut self) -> f32 {
        self.1 += N;
        self.1 as f32
    }

    #[brick(id = Borrowed)]
    fn inner(self: &Self) -> &'a [T; N] {
        self.0
    }
}

#[brick(id = Looped, assert = "no_nan")]
fn moves_its_output(out: &mut [f32]) {
    for slot in out {
        *slot = 1.0;
    }
}

#[brick(id = Repointed, assert = "no_nan")]
fn points_elsewhere(mut rest: &mut [f32]) {
    while let Some((first, others)) = rest.split_first_mut() {
        *first = 1.0;
        rest = others;
    }
}

#[brick(id = Reborrowed)]
fn first<'a>(x: &'a mut [f32]) -> Option<&'a mut f32> {
    x.first_mut()
}

#[brick(id = Question, assert = "finite")]
fn parse(x: &str, out: &mut Vec<f32>) -> Result<(), Box<dyn std::error::Error>> {
    let value = x.parse()?;
    if value == 0.0 {
        return Err("zero".into());
    }
    out.push(value);
    Ok(())
}

#[brick(id = ImplTrait)]
fn labels(n: u32, label: impl Display) -> Result<impl Iterator<Item = String>, std::fmt::Error> {
    use std::fmt::Write;
    let mut text = String::new();
    write!(text, "{label}")?;
    Ok((0..n).map(move |n| format!("{text}{n}")))
}

#[brick(id = Patterns, assert = "no_nan")]
fn patterns((a, _): (f32, u8), [b, ..]: [f32; 2], mut c: f32) -> (f32, [f32; 1]) {
    c += a;
    (c, [b])
}

#[brick(id = Recursive, layer = n)]
fn fibonacci(n: u64) -> u64 {
    if n < 2 { n } else { fibonacci(n - 1) + fibonacci(n - 2) }
}

#[brick(id = Unsafe, requires = !x.is_null())]
unsafe extern "C" fn read(x: *const f32) -> f32 {
    unsafe { *x }
}

#[brick(id = Caller)]
#[track_caller]
fn caller() -> u32 {
    std::panic::Location::caller().line()
}

#[brick(id = Never)]
fn never(message: &str) -> ! {
    panic!("{message}")
}

#[brick(id = Cfgs, assert = "no_nan")]
fn cfgs(#[cfg(any())] gone: &mut [f32], #[cfg(all())] out: &mut [f32]) {
    out[0] = 0.5;
}

#[brick(id = Awaits, assert(out = "finite"))]
async fn awaits(x: &[f32], out: &mut [f32]) -> Result<Box<dyn Display>, String> {
    let last = async { x.last().copied() }.await.ok_or("none")?;
    out.fill(last);
    Ok(Box::new(last))
}

#[brick(id = Boxed, assert(return = "no_nan"))]
fn boxed<'a>(x: &'a [f32]) -> Pin<Box<dyn Future<Output = f32> + Send + 'a>> {
    Box::pin(async move { x.iter().sum() })
}

#[brick(id = Promised)]
fn promised(x: f32) -> impl Future<Output = f32> + Send {
    async move { x * 2.0 }
}

fn nested() -> impl Fn(f32) -> f32 {
    #[brick(id = Nested)]
    fn double(x: f32) -> f32 {
        x * 2.0
    }
    double
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

fn main() {
    let mut scale = Scale(&[1.0_f32, 2.0], 0);
    assert_eq!((scale.run(&[1.0]), scale.count(), scale.inner()[1]), (1.0, 2.0, 2.0));
    assert_eq!(ready(scale.load()), 3.0);
    let mut out = vec![0.0; 3];
    moves_its_output(&mut out);
    points_elsewhere(&mut out);
    assert_eq!(out, [1.0; 3]);
    assert_eq!(first(&mut out).copied(), Some(1.0));
    assert!(parse("x", &mut out).is_err() && parse("0", &mut out).is_err() && parse("2", &mut out).is_ok());
    assert_eq!(labels(2, 'x').unwrap().last().unwrap(), "x1");
    assert_eq!(patterns((1.0, 2), [3.0, 4.0], 5.0), (6.0, [3.0]));
    assert_eq!(fibonacci(10), 55);
    assert_eq!(unsafe { read(&7.0) }, 7.0);
    assert_eq!(caller(), line!());
    assert!(std::panic::catch_unwind(|| never("as it should")).is_err());
    cfgs(&mut out);
    assert_eq!(ready(is_send(awaits(&[1.0], &mut out))).unwrap().to_string(), "1");
    assert_eq!(ready(boxed(&[1.0, 2.0])) + ready(promised(1.0)) + nested()(1.0), 7.0);
    assert_eq!(BrickId::COUNT, 19);
}
