//! Async bricks on a multi-thread executor.
#![cfg(feature = "visualization")]

mod common;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use brick_runtime::__private::Site;
use brick_runtime::BrickProfiler;
use common::{call, of, spin, stats};

/// The body of an async brick, as the macro wraps it.
async fn brick<F: Future>(site: &'static Site, body: F) -> F::Output {
    site.open().tokens(2u32).start_async().run(body).await.0
}

/// Pending so many times; the task may be on another thread each time.
struct Yields(u32);

impl Future for Yields {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.0 == 0 {
            return Poll::Ready(());
        }
        self.0 -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_time()
        .build()
        .unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "tokio's I/O driver makes foreign calls")]
fn calls_polls_and_latency_are_counted_on_many_threads() {
    let site = site!("tasks");
    let runtime = runtime();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..500)
            .map(|_| tokio::spawn(brick(site, Yields(9))))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    let stats = stats("tasks").unwrap();
    assert_eq!(
        (stats.calls(), stats.polls(), stats.cancelled()),
        (500, 5000, 0)
    );
    assert_eq!((stats.latency().count, stats.tokens()), (500, 1000));
    assert_eq!(stats.recursive(), 0);
}

/// A future's busy time and latency by `Instant`: an oracle to put inside of a brick, and around it.
struct Stopwatch<F> {
    body: Pin<Box<F>>,
    first: Option<Instant>,
    busy: Duration,
}

impl<F: Future> Stopwatch<F> {
    fn new(body: F) -> Self {
        Stopwatch {
            body: Box::pin(body),
            first: None,
            busy: Duration::ZERO,
        }
    }
}

impl<F: Future> Future for Stopwatch<F> {
    /// What the body returns, busy and latency in nanoseconds.
    type Output = (F::Output, f64, f64);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let begin = Instant::now();
        let first = *self.first.get_or_insert(begin);
        let poll = self.body.as_mut().poll(cx);
        self.busy += begin.elapsed();
        let ns = |time: Duration| time.as_nanos() as f64;
        poll.map(|out| (out, ns(self.busy), ns(first.elapsed())))
    }
}

#[test]
#[cfg_attr(miri, ignore = "tokio's I/O driver makes foreign calls")]
fn busy_time_is_not_latency() {
    let site = site!("sleeps");
    let body = Stopwatch::new(async {
        spin(Duration::from_millis(2));
        tokio::time::sleep(Duration::from_millis(50)).await;
        spin(Duration::from_millis(2));
    });
    let ((((), busy, latency), busy_around, latency_around), stats) = {
        let told = runtime().block_on(Stopwatch::new(brick(site, body)));
        (told, stats("sleeps").unwrap())
    };
    assert!(busy >= 4e6 && latency >= 54e6);
    // The counter's rate is measured, to about a thousandth.
    let between = |low: f64, ns: f64, high: f64| {
        assert!(low * 0.999 <= ns && ns <= high * 1.001, "{low} {ns} {high}");
    };
    between(busy, stats.total_ns(), busy_around);
    between(latency, stats.latency().total_ns, latency_around);
    assert!((stats.self_ns() - stats.total_ns()).abs() < 1.0);
}

#[test]
#[cfg_attr(miri, ignore = "tokio's I/O driver makes foreign calls")]
fn a_future_dropped_before_its_end_is_cancelled() {
    let site = site!("cancelled");
    runtime().block_on(async {
        let never = brick(site, std::future::pending::<()>());
        assert!(
            tokio::time::timeout(Duration::from_millis(5), never)
                .await
                .is_err()
        );
    });
    let stats = stats("cancelled").unwrap();
    assert_eq!((stats.calls(), stats.cancelled()), (0, 1));
    assert!(stats.polls() >= 1);
}

/// Polls by hand, on this thread.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
}

#[test]
fn a_poll_is_a_level_of_nesting() {
    let (outer, child) = (site!("async outer"), site!("async child"));
    let mut task = Box::pin(brick(outer, async {
        call(child, || spin(Duration::from_millis(1)));
        Yields(1).await;
        call(child, || spin(Duration::from_millis(1)));
    }));
    assert!(poll_once(&mut task).is_pending());
    // In between, other calls on this thread are nobody's children.
    call(site!("async between"), || ());
    assert!(poll_once(&mut task).is_ready());
    let snapshot = BrickProfiler::global().snapshot();
    let (outer, child) = (
        of(&snapshot, "async outer").unwrap(),
        of(&snapshot, "async child").unwrap(),
    );
    assert_eq!((outer.calls(), outer.polls(), child.calls()), (1, 2, 2));
    assert!((outer.total_ns() - outer.self_ns() - child.total_ns()).abs() < 2.0);
}

#[test]
fn a_panic_in_a_poll_ends_the_call() {
    let site = site!("async panic");
    let mut task = Box::pin(brick(site, async {
        Yields(1).await;
        std::panic::resume_unwind(Box::new("thrown"));
    }));
    assert!(poll_once(&mut task).is_pending());
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll_once(&mut task)));
    assert!(panic.is_err());
    drop(task);
    let stats = stats("async panic").unwrap();
    assert_eq!(
        (
            stats.calls(),
            stats.panics(),
            stats.cancelled(),
            stats.polls()
        ),
        (1, 1, 0, 2)
    );
}

#[test]
fn async_recursion_is_timed_once() {
    fn down(site: &'static Site, depth: u32) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(brick(site, async move {
            spin(Duration::from_micros(100));
            if depth > 0 {
                down(site, depth - 1).await;
            }
            Yields(1).await;
        }))
    }
    let site = site!("async recursion");
    let mut task = down(site, 3);
    while poll_once(&mut task).is_pending() {}
    let stats = stats("async recursion").unwrap();
    assert_eq!(
        (stats.calls(), stats.timed_calls(), stats.recursive()),
        (4, 1, 3)
    );
    assert!(stats.total_ns() >= 400e3 * 0.999);
    assert!(
        (stats.self_ns() - stats.total_ns()).abs() < 10.0,
        "{} {}",
        stats.self_ns(),
        stats.total_ns()
    );
}

#[test]
fn the_layer_is_that_of_the_poll() {
    let (outer, child) = (site!("async layer"), site!("async layer child"));
    let mut task = Box::pin(async {
        let call = outer.open().layer(5u32).start_async();
        call.run(async {
            Yields(1).await;
            common::call(child, || ());
        })
        .await
        .0
    });
    assert!(poll_once(&mut task).is_pending());
    assert_eq!(brick_runtime::current_layer(), None);
    assert!(poll_once(&mut task).is_ready());
    for name in ["async layer", "async layer child"] {
        let layers: Vec<_> = stats(name)
            .unwrap()
            .layers()
            .map(|l| (l.layer, l.time.count))
            .collect();
        assert_eq!(layers, [(5, 1)], "{name}");
    }
}

/// A future that holds a brick's call can go to another thread.
#[test]
fn an_async_brick_is_send() {
    fn send<T: Send>(_: T) {}
    send(brick(site!("send"), Yields(0)));
}
