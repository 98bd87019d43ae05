//! Async bricks: the time a call keeps a thread busy and the time it takes to finish are two
//! figures.
//!
//! ```console
//! $ cargo run --release -p async-calls
//! 4 calls, 1 cancelled, 10 polls, 15 bytes
//! busy       0.008 ms in all
//! latency   84.432 ms in all
//! ```
//!
//! A future is timed poll by poll, so nothing is charged for waiting, and it may move from thread
//! to thread between two polls. A call that is dropped before its end is counted as cancelled.

use std::time::Duration;

use brick_runtime::{BrickProfiler, BrickStats, brick};
use tokio::time::{sleep, timeout};

brick_runtime::bricks!();

/// Waits for a prompt, then hashes it.
#[brick(id = Receive, budget_us = 1000, bytes = prompt.len())]
async fn receive(prompt: &'static str, delay: Duration) -> u32 {
    sleep(delay).await;
    prompt
        .bytes()
        .fold(0, |hash, byte| hash.rotate_left(5) ^ u32::from(byte))
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let prompts = ["one", "two", "three", "four"];
        let calls: Vec<_> = prompts
            .map(|prompt| tokio::spawn(receive(prompt, Duration::from_millis(20))))
            .into();
        for call in calls {
            call.await.expect("no call panics");
        }
        // Given up on while it waits.
        let late = timeout(
            Duration::from_millis(5),
            receive("five", Duration::from_secs(60)),
        );
        late.await.expect_err("60 s are more than 5 ms");
    });

    match BrickProfiler::global().brick_stats(BrickId::Receive) {
        Some(stats) => report(&stats),
        None => println!("nothing was recorded"),
    }
}

fn report(stats: &BrickStats) {
    let (busy, latency) = (stats.time(), stats.latency());
    println!(
        "{} calls, {} cancelled, {} polls, {} bytes",
        stats.calls(),
        stats.cancelled(),
        stats.polls(),
        stats.bytes()
    );
    println!("busy    {:8.3} ms in all", busy.total_ns / 1e6);
    println!("latency {:8.3} ms in all", latency.total_ns / 1e6);
    assert!(latency.min_ns >= Some(20e6), "each call waited for 20 ms");
    assert!(
        busy.total_ns < latency.total_ns / 2.0,
        "waiting is not charged"
    );
}
