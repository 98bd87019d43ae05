//! Ours.

use std::hint::black_box;
use std::time::Duration;

use brick_runtime::__private::Site;
use brick_runtime::{BrickInfo, BrickProfiler, Rules};

use crate::harness::{Run, thread_time};
use crate::plain;

macro_rules! site {
    ($name:literal $($builder:tt)*) => {{
        static INFO: BrickInfo = BrickInfo::new($name, module_path!(), $name, file!(), line!())$($builder)*;
        static SITE: Site = Site::new(&INFO);
        &SITE
    }};
}

#[inline(never)]
pub fn full(x: u64) -> u64 {
    let call = site!("Full").open().start();
    let result = black_box(x + 1);
    call.exit();
    result
}

#[inline(never)]
pub fn budget(x: u64) -> u64 {
    let call = site!("Budget" .budget_ns(1_000_000)).open().start();
    let result = black_box(x + 1);
    call.exit();
    result
}

#[inline(never)]
fn child(x: u64) -> u64 {
    let call = site!("Child").open().start();
    let result = black_box(x + 1);
    call.exit();
    result
}

#[inline(never)]
pub fn parent(x: u64) -> u64 {
    let call = site!("Parent").open().start();
    let result = child(black_box(x + 1));
    call.exit();
    result
}

#[inline(never)]
pub fn declared(x: u64) -> u64 {
    let call = site!("Declared").open().flops(2 * x + 2).bytes(8u64).layer(x & 31).start();
    let result = black_box(x + 1);
    call.exit();
    result
}

#[inline(never)]
fn checked(out: &mut [f32; 256]) {
    let call = site!("Checked").open().start();
    let out_after = black_box(&mut *out);
    let post = call.exit();
    if let Some(mut verdict) = post.checks() {
        verdict.tensor("out", &out_after[..], const { &Rules::FINITE });
        verdict.finish();
    }
}

pub fn finite(n: u64) -> Duration {
    let mut out = [1.0f32; 256];
    let begin = thread_time();
    for _ in 0..n {
        checked(black_box(&mut out));
    }
    thread_time() - begin
}

pub fn disabled(n: u64) -> Duration {
    BrickProfiler::global().disable();
    let time = (plain!(full) as Run)(n);
    BrickProfiler::global().enable();
    time
}
