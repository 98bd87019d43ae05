//! The exporter: a sink behind a buffer and a thread.

use super::courier::{Courier, ExportReport, Limits, Offered, Step};
use super::{Sink, SinkError};
use crate::span::{SpanId, SpanRecord};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

/// What a flush may take where nobody says: the deadline of an exporter that is dropped.
const FLUSH: Duration = Duration::from_secs(5);

/// Sends spans to a [`Sink`] from a thread of its own.
///
/// It can be shared: [`offer`](Exporter::offer) takes `&self`. Dropped without
/// [`finish`](Exporter::finish) it flushes for up to 5 s.
#[derive(Debug)]
pub struct Exporter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    courier: Mutex<State>,
    /// Something was offered, or the end is near: for the thread.
    offered: Condvar,
    /// There is room again, or it is over: for those who wait.
    progress: Condvar,
}

#[derive(Debug)]
struct State {
    courier: Courier,
    over: bool,
}

impl Exporter {
    /// Starts the thread.
    ///
    /// # Errors
    /// Where the system starts no more threads.
    pub fn start(sink: impl Sink, limits: Limits) -> io::Result<Exporter> {
        let shared = Arc::new(Shared {
            courier: Mutex::new(State {
                courier: Courier::new(limits),
                over: false,
            }),
            offered: Condvar::new(),
            progress: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        thread::Builder::new()
            .name("span-exporter".into())
            .spawn(move || theirs.run(Box::new(sink)))?;
        Ok(Exporter { shared })
    }

    /// Gives a span to send, and returns at once: `false` where there was no room for it, which is
    /// counted. The lock that it takes is held by the thread only to move a batch out, never while the
    /// sink is at work.
    pub fn offer(&self, span: SpanRecord) -> bool {
        let offered = self.shared.lock().courier.offer(span, Instant::now());
        if offered == Offered::Due {
            self.shared.offered.notify_one();
        }
        offered != Offered::Refused
    }

    /// How many spans may be offered now. Any number where the sink is being left alone: it makes no
    /// sense to keep them for it, and those that find no room are counted.
    #[must_use]
    pub fn room(&self) -> usize {
        self.shared.lock().courier.room(Instant::now())
    }

    /// Gives all `spans`, and waits for room where there is none, up to `patience` in all: for the
    /// end of a program, not for where time is measured. What then still finds no room is counted as
    /// refused; where the sink is being left alone for longer than that, at once.
    pub fn offer_all(&self, spans: impl IntoIterator<Item = SpanRecord>, patience: Duration) {
        let deadline = Instant::now() + patience;
        for span in spans {
            let mut state = self.shared.lock();
            while !state.courier.has_room() && !state.over && !state.courier.hopeless(deadline) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                self.shared.offered.notify_one();
                let waited = self.shared.progress.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            drop(state);
            self.offer(span);
        }
    }

    /// Sends what is there, for up to `patience`, and says what became of all spans. Returns earlier
    /// where nothing is left, or where the sink does not answer and would be left alone for longer.
    pub fn finish(self, patience: Duration) -> ExportReport {
        self.shared.close(patience);
        self.shared.lock().courier.report()
    }

    /// What has become of the spans so far; those that are still here count as left.
    #[must_use]
    pub fn report(&self) -> ExportReport {
        self.shared.lock().courier.report()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.shared.close(FLUSH);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock can panic half-way.
        self.courier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when all is sent or `patience` is over, whatever the sink does.
    fn close(&self, patience: Duration) {
        let mut state = self.lock();
        let deadline = state.courier.close(Instant::now() + patience);
        self.offered.notify_one();
        while !state.over {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.progress.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The thread.
    fn run(&self, mut sink: Box<dyn Sink>) {
        let mut state = self.lock();
        loop {
            match state.courier.step(Instant::now()) {
                Step::Done => break,
                Step::Wait(None) => {
                    let woken = self.offered.wait(state);
                    state = woken.unwrap_or_else(PoisonError::into_inner);
                }
                Step::Wait(Some(until)) => {
                    let time = until.saturating_duration_since(Instant::now());
                    let woken = self.offered.wait_timeout(state, time);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
                Step::Send(batch) => {
                    let timeout = state.courier.timeout(Instant::now());
                    drop(state);
                    self.progress.notify_all();
                    // A sink of the user's that panics is a sink that failed.
                    let export = AssertUnwindSafe(|| sink.export(&batch.spans, timeout));
                    let outcome = panic::catch_unwind(export)
                        .unwrap_or_else(|_| Err(SinkError::Permanent("the sink panicked".into())));
                    state = self.lock();
                    let now = Instant::now();
                    state.courier.outcome(batch, outcome, now, jitter());
                    self.progress.notify_all();
                }
            }
        }
        state.over = true;
        drop(state);
        self.progress.notify_all();
        // And now the sink is dropped, which may take its time: nobody waits for it.
    }
}

/// Some random bits.
fn jitter() -> u32 {
    let [a, b, c, d, ..] = SpanId::random().bytes();
    u32::from_be_bytes([a, b, c, d])
}
