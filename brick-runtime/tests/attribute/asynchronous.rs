//! Async functions, and functions that return a future.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use brick_runtime::brick;

use crate::{BrickId, assert_faults, record, stats};

/// Polls to the end.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            return value;
        }
    }
}

/// Is pending once.
async fn pending() {
    let mut polled = false;
    poll_fn(|_| {
        if std::mem::replace(&mut polled, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[track_caller]
fn assert_calls(id: BrickId, calls: u64, polls: u64) {
    if let Some(stats) = stats(id) {
        assert_eq!((stats.calls(), stats.polls()), (calls, polls));
    }
}

#[brick(id = AsyncPolls)]
async fn polls(times: u32) -> u32 {
    for _ in 0..times {
        pending().await;
    }
    times
}

#[test]
fn polls_are_counted() {
    assert_eq!(block_on(is_send(polls(3))), 3);
    assert_calls(BrickId::AsyncPolls, 1, 4);
}

#[brick(id = AsyncChecks, requires = !x.is_empty(), assert = "finite", ensures = |ret| ret.is_err() || out.len() == 1)]
async fn checks(x: &[f32], out: &mut Vec<f32>) -> Result<f32, Box<dyn std::error::Error>> {
    pending().await;
    let Some(first) = x.first() else {
        Err("nothing")?
    };
    out.push(*first);
    pending().await;
    Ok(*first)
}

#[test]
fn contracts_hold_over_awaits() {
    record();
    assert_eq!(block_on(checks(&[1.0], &mut vec![])).unwrap(), 1.0);
    assert_faults(BrickId::AsyncChecks, &[]);
    assert!(block_on(checks(&[], &mut vec![])).is_err());
    assert!(block_on(checks(&[f32::NAN], &mut vec![])).unwrap().is_nan());
    block_on(checks(&[1.0], &mut vec![1.0])).unwrap();
    let ensures = "ensures |ret| ret.is_err() || out.len() == 1";
    assert_faults(
        BrickId::AsyncChecks,
        &["requires !x.is_empty()", "out[0] no_nan", ensures],
    );
}

#[brick(id = AsyncSend, assert = "no_nan")]
async fn with_a_cell(cell: Cell<f32>, out: &mut f32) {
    pending().await;
    *out = cell.get();
}

#[test]
fn parameters_are_moved_in_so_that_the_future_stays_send() {
    let mut out = 0.0;
    block_on(is_send(with_a_cell(Cell::new(2.0), &mut out)));
    assert_eq!(out, 2.0);
    assert_calls(BrickId::AsyncSend, 1, 2);
}

#[brick(id = AsyncBoxed, assert(return = "no_nan"))]
fn boxed<'a>(x: &'a [f32]) -> Pin<Box<dyn Future<Output = f32> + Send + 'a>> {
    Box::pin(async move {
        pending().await;
        x.iter().sum()
    })
}

#[allow(clippy::manual_async_fn)] // it is what this is about
#[brick(id = AsyncPromise)]
fn promise(x: f32) -> impl Future<Output = f32> + Send {
    async move {
        pending().await;
        x * 2.0
    }
}

#[test]
fn returned_futures_are_timed_not_their_making() {
    record();
    drop((boxed(&[1.0]), promise(1.0)));
    assert_eq!(block_on(boxed(&[1.0, 2.0])), 3.0);
    assert!(block_on(boxed(&[f32::NAN])).is_nan());
    assert_eq!(block_on(promise(2.0)), 4.0);
    assert_calls(BrickId::AsyncBoxed, 2, 4);
    assert_calls(BrickId::AsyncPromise, 1, 2);
    assert_faults(BrickId::AsyncBoxed, &["return[0] no_nan"]);
}

trait Load {
    async fn load(&self) -> f32;
}

#[async_trait::async_trait]
trait Store {
    async fn store(&mut self, out: &mut [f32]) -> Result<usize, String>;
}

struct File(f32);

impl Load for File {
    #[brick(id = AsyncInTrait)]
    async fn load(&self) -> f32 {
        pending().await;
        self.0
    }
}

#[async_trait::async_trait]
impl Store for File {
    #[brick(id = AsyncTraitCrate, assert(out = "no_nan"), elements = out.len())]
    async fn store(&mut self, out: &mut [f32]) -> Result<usize, String> {
        pending().await;
        *out.first_mut().ok_or("nothing")? = self.0;
        self.0 += 1.0;
        Ok(out.len())
    }
}

#[test]
fn traits_with_async_methods() {
    record();
    assert_eq!(block_on(File(3.0).load()), 3.0);
    assert_calls(BrickId::AsyncInTrait, 1, 2);
    let (mut file, mut out) = (File(f32::NAN), [0.0; 2]);
    assert_eq!(block_on(file.store(&mut out)), Ok(2));
    assert!(block_on(file.store(&mut [])).is_err());
    assert_calls(BrickId::AsyncTraitCrate, 2, 4);
    assert_faults(BrickId::AsyncTraitCrate, &["out[0] no_nan"]);
}

struct Model(f32);

impl Model {
    #[brick(id = AsyncSelf, ensures = |ret| *ret < self.0)]
    async fn step(&mut self) -> f32 {
        self.0 += 1.0;
        pending().await;
        self.0
    }
}

#[test]
fn ensures_sees_self_after_an_await() {
    record();
    assert_eq!(block_on(Model(1.0).step()), 2.0);
    assert_faults(BrickId::AsyncSelf, &["ensures |ret| *ret < self.0"]);
}

#[test]
fn a_future_that_is_dropped_was_cancelled() {
    #[brick(id = AsyncCancelled)]
    async fn cancelled() {
        pending().await;
    }
    let mut future = Box::pin(cancelled());
    assert!(
        future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    drop(future);
    if let Some(stats) = stats(BrickId::AsyncCancelled) {
        assert_eq!((stats.cancelled(), stats.panics()), (1, 0));
    }
}
