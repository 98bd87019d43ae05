//! Spans that are sent while the recording goes on.

use super::exporter::Exporter;
use crate::span::SpanStream;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{io, panic};

/// Hands the spans of a [`SpanStream`] to an [`Exporter`], from a thread of its own.
///
/// Whoever is recorded waits for nothing. Where the exporter has no room, because its sink is slow, spans
/// wait in the recording, up to its limit; where the sink is being left alone, they are refused and
/// counted. A process that is killed has lost what ended since the last look, and what the exporter had not
/// sent yet.
///
/// Dropped without [`stop`](LiveExport::stop) it stops, and the exporter flushes.
#[derive(Debug)]
pub struct LiveExport {
    over: Arc<Signal>,
    /// Until it is joined.
    thread: Option<JoinHandle<(SpanStream, Exporter)>>,
}

/// Whether it is over, for those who wait for that.
#[derive(Debug, Default)]
struct Signal {
    over: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn set(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `time` at most; whether it is over.
    fn wait(&self, time: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(over, time, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl LiveExport {
    /// Starts the thread, which looks `every` so often what has ended.
    ///
    /// # Errors
    /// Where the system starts no more threads.
    pub fn start(
        stream: SpanStream,
        exporter: Exporter,
        every: Duration,
    ) -> io::Result<LiveExport> {
        let over = Arc::new(Signal::default());
        let theirs = Arc::clone(&over);
        let thread = thread::Builder::new()
            .name("span-stream".into())
            .spawn(move || hand_on(stream, exporter, &theirs, every))?;
        Ok(LiveExport {
            over,
            thread: Some(thread),
        })
    }

    /// Ends the thread. The recording goes on until the stream is [stopped](SpanStream::stop); what
    /// has not been handed on is still in it, and may be [offered](Exporter::offer_all) with patience.
    #[must_use = "what was not handed on yet is in there"]
    pub fn stop(mut self) -> (SpanStream, Exporter) {
        match self.join() {
            Some(parts) => parts,
            None => unreachable!("only this and the drop take the thread"),
        }
    }

    fn join(&mut self) -> Option<(SpanStream, Exporter)> {
        self.over.set();
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|payload| panic::resume_unwind(payload)))
    }
}

impl Drop for LiveExport {
    fn drop(&mut self) {
        self.over.set();
        if let Some(thread) = self.thread.take() {
            // If it panicked, that was told, and there is nothing left to flush.
            drop(thread.join());
        }
    }
}

/// The thread.
fn hand_on(
    mut stream: SpanStream,
    exporter: Exporter,
    over: &Signal,
    every: Duration,
) -> (SpanStream, Exporter) {
    while !over.wait(every) {
        stream.advance();
        for span in stream.by_ref().take(exporter.room()) {
            exporter.offer(span);
        }
    }
    (stream, exporter)
}
