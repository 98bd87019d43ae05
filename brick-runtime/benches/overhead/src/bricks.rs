//! Ours.

use std::hint::black_box;
use std::time::Duration;

use brick_runtime::{BrickProfiler, brick};

use crate::harness::{Run, thread_time};
use crate::plain;

#[brick(id = Full)]
#[inline(never)]
pub fn full(x: u64) -> u64 {
    black_box(x + 1)
}

#[brick(id = Budgeted, budget_us = 1000)]
#[inline(never)]
pub fn budget(x: u64) -> u64 {
    black_box(x + 1)
}

#[brick(id = Child)]
#[inline(never)]
fn child(x: u64) -> u64 {
    black_box(x + 1)
}

#[brick(id = Parent)]
#[inline(never)]
pub fn parent(x: u64) -> u64 {
    child(black_box(x + 1))
}

#[brick(id = Declared, flops = 2 * x + 2, bytes = 8)]
#[inline(never)]
pub fn declared(x: u64) -> u64 {
    black_box(x + 1)
}

#[brick(id = Layered, layer = x & 31)]
#[inline(never)]
pub fn layered(x: u64) -> u64 {
    black_box(x + 1)
}

#[brick(id = Checked, assert = "finite")]
#[inline(never)]
fn checked(out: &mut [f32; 256]) {
    black_box(out);
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
