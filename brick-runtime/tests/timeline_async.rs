//! What a recording holds of async calls.
#![cfg(feature = "visualization")]

mod common;
mod recording;

use std::collections::HashMap;

use brick_runtime::timeline::{Event, EventKind};
use recording::{alone, of, record};

#[test]
#[cfg_attr(miri, ignore = "tokio's I/O driver makes foreign calls")]
fn polls_of_one_call_share_its_number() {
    let _alone = alone();
    let site = site!("polled");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .build()
        .unwrap();
    let timeline = record(|| {
        runtime.block_on(async {
            let tasks: Vec<_> = (0..40)
                .map(|_| {
                    let body = async {
                        for _ in 0..4 {
                            tokio::task::yield_now().await;
                        }
                    };
                    tokio::spawn(async { site.open().start_async().run(body).await.0 })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
    let mut calls: HashMap<_, Vec<&Event>> = HashMap::new();
    for event in of(&timeline, "polled") {
        assert!(matches!(event.kind, EventKind::Poll(_)));
        calls.entry(event.call.unwrap()).or_default().push(event);
    }
    assert_eq!(calls.len(), 40);
    for polls in calls.values_mut() {
        polls.sort_by_key(|poll| poll.start_ns);
        assert_eq!(polls.len(), 5);
        // One after the other, wherever they ran. Counters of two cores may differ by a little.
        assert!(
            polls
                .windows(2)
                .all(|two| two[0].end_ns <= two[1].start_ns + 100)
        );
    }
}
