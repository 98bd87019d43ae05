//! The log's protocol under every interleaving that matters, with loom.
//!
//! `src/slab/log.rs` is compiled into this test with loom's atomics in place of std's: what is
//! modelled is the code that runs. The ledger is a counter of its own here, the hand-over
//! between threads a mutex, as in `slab/pool.rs`.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "the log's file is shared with the library"
)]

#[path = "../src/slab/log.rs"]
mod log;

/// What `log.rs` finds under `crate::sync`.
mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering, fence};
}

use log::{APART, Entries, Log, Sink, View};
use loom::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Room for what a model appends between two folds.
const CAP: usize = 4;

/// Sums amounts, and counts entries: two cells that must be seen together.
struct Ledger {
    sum: AtomicU64,
    count: AtomicU64,
}

impl Sink for Ledger {
    fn clear(&self) {
        self.sum.store(0, Relaxed);
        self.count.store(0, Relaxed);
    }
    fn skip(&self, _: Entries<'_>) {}
    fn apply(&self, entries: Entries<'_>) {
        for i in 0..entries.amounts.len() {
            let amount = entries.get(i).amount;
            self.sum.store(self.sum.load(Relaxed) + amount, Relaxed);
            self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        }
    }
}

struct Slab {
    log: Log<CAP>,
    ledger: Ledger,
}

impl Slab {
    fn new() -> Slab {
        let words = || std::array::from_fn(|_| AtomicU64::new(0));
        let log = Log {
            len: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            hold: AtomicU64::new(0),
            reset_asked: AtomicU64::new(0),
            reset_done: AtomicU64::new(0),
            amounts: words(),
            apart: [0; APART],
            metas: std::array::from_fn(|_| AtomicU16::new(0)),
            details: words(),
        };
        Slab {
            log,
            ledger: Ledger {
                sum: AtomicU64::new(0),
                count: AtomicU64::new(0),
            },
        }
    }

    /// A call whose amount and meta must be seen together.
    fn call(&self, amount: u64) {
        let appended = self
            .log
            .try_append(amount, amount as u16, 0, 0, CAP as u64 + 1);
        assert!(appended);
    }

    fn fold(&self) {
        self.log.fold(&self.ledger);
    }

    /// Sum and count, pending entries included.
    fn read(&self) -> (u64, u64) {
        let copy = |view: View| {
            let (mut sum, mut count) = (0, 0);
            if view.ledger {
                (sum, count) = (
                    self.ledger.sum.load(Relaxed),
                    self.ledger.count.load(Relaxed),
                );
            }
            let entries: Vec<_> = (view.from..view.len).map(|i| self.log.entry(i)).collect();
            (sum, count, entries)
        };
        let (sum, count, entries) = self.log.read(copy, thread::yield_now);
        for entry in &entries {
            assert_eq!(
                entry.amount,
                u64::from(entry.meta),
                "a torn entry was returned"
            );
        }
        (
            sum + entries.iter().map(|e| e.amount).sum::<u64>(),
            count + entries.len() as u64,
        )
    }
}

/// Every interleaving with so many preemptions; each more takes ten times as long. Returns how
/// many that were: a model that runs a handful of times proves nothing.
///
/// loom looks for conflicts with the last access to a word only. An owner reads a word before it
/// writes it, which would hide that others read it earlier: so owners go first, here, and
/// readers are the threads that are spawned.
fn model(preemptions: usize, run: impl Fn() + Send + Sync + 'static) -> u64 {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = executions.clone();
    builder.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        run();
    });
    executions.load(std::sync::atomic::Ordering::Relaxed)
}

/// The sums of the first `n` of the amounts 1, 2, 3, …
fn triangle(n: u64) -> u64 {
    n * (n + 1) / 2
}

/// A reader sees the first so many calls, whole, whatever is folded meanwhile.
#[test]
#[cfg_attr(miri, ignore = "loom explores on its own")]
fn a_reader_sees_a_prefix_of_what_the_owner_did() {
    let executions = model(3, || {
        let slab = Arc::new(Slab::new());
        let reader = thread::spawn({
            let slab = slab.clone();
            move || {
                let (sum, count) = slab.read();
                assert_eq!(sum, triangle(count), "calls were lost, doubled or torn");
            }
        });
        slab.call(1);
        slab.fold();
        slab.call(2);
        reader.join().unwrap();
        assert_eq!(slab.read(), (3, 2));
    });
    assert!(executions > 1000, "{executions}");
}

/// A slab changes hands through the pool's lock; nothing is lost, and a reader never notices.
#[test]
#[cfg_attr(miri, ignore = "loom explores on its own")]
fn the_next_owner_goes_on_where_the_last_stopped() {
    let executions = model(2, || {
        let slab = Arc::new(Slab::new());
        let free = Arc::new(Mutex::new(false));
        let next = thread::spawn({
            let (slab, free) = (slab.clone(), free.clone());
            move || {
                if *free.lock().unwrap() {
                    slab.log.take_over();
                    slab.call(2);
                }
            }
        });
        let reader = thread::spawn({
            let slab = slab.clone();
            move || {
                let (sum, count) = slab.read();
                assert_eq!(sum, triangle(count), "calls were lost, doubled or torn");
            }
        });
        slab.call(1);
        slab.fold();
        *free.lock().unwrap() = true;
        next.join().unwrap();
        reader.join().unwrap();
        let (sum, count) = slab.read();
        assert!(count >= 1 && sum == triangle(count));
    });
    assert!(executions > 1000, "{executions}");
}

/// A reset cuts the owner's calls in two: what is counted after it is a suffix.
#[test]
#[cfg_attr(miri, ignore = "loom explores on its own")]
fn a_reset_leaves_a_suffix() {
    const SUFFIXES: [(u64, u64); 3] = [(0, 0), (2, 1), (3, 2)];
    let executions = model(2, || {
        let slab = Arc::new(Slab::new());
        let reader = thread::spawn({
            let slab = slab.clone();
            move || {
                slab.log.ask_reset(thread::yield_now);
                let seen = slab.read();
                // Of a suffix, a prefix.
                assert!(SUFFIXES.contains(&seen) || seen == (1, 1), "{seen:?}");
            }
        });
        slab.call(1);
        slab.fold();
        slab.call(2);
        reader.join().unwrap();
        let seen = slab.read();
        assert!(SUFFIXES.contains(&seen), "{seen:?} is no suffix");
        slab.call(4);
        let after = (seen.0 + 4, seen.1 + 1);
        assert_eq!(slab.read(), after);
        slab.fold();
        assert_eq!(slab.read(), after);
    });
    assert!(executions > 1000, "{executions}");
}
