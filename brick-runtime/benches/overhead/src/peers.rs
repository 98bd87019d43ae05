//! The others, each the way its documentation shows it.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::harness::{Run, thread_time};
use crate::plain;

/// Spans hang off a root, or lie in a frame, of this many calls, whose own cost is amortised in.
/// (fastrace drops local spans past 10 240 a root.)
const BATCH: u64 = 1000;

#[inline(never)]
#[hotpath::measure]
pub fn with_hotpath(x: u64) -> u64 {
    black_box(x + 1)
}

#[inline(never)]
#[tracing::instrument(skip_all)]
pub fn with_tracing(x: u64) -> u64 {
    black_box(x + 1)
}

#[inline(never)]
#[fastrace::trace]
fn with_fastrace(x: u64) -> u64 {
    black_box(x + 1)
}

#[inline(never)]
fn with_puffin(x: u64) -> u64 {
    puffin::profile_function!();
    black_box(x + 1)
}

/// Count and sum of the time in spans: the least that a timing layer can do.
struct Timing;
static LAYER_COUNT: AtomicU64 = AtomicU64::new(0);
static LAYER_NS: AtomicU64 = AtomicU64::new(0);
struct Entered(Instant);

impl<S> tracing_subscriber::Layer<S> for Timing
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a>,
{
    fn on_enter(&self, id: &tracing::span::Id, context: tracing_subscriber::layer::Context<'_, S>) {
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(Entered(Instant::now()));
        }
    }

    fn on_exit(&self, id: &tracing::span::Id, context: tracing_subscriber::layer::Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(Entered(begin)) = span.extensions().get::<Entered>() {
            LAYER_NS.fetch_add(begin.elapsed().as_nanos() as u64, Relaxed);
            LAYER_COUNT.fetch_add(1, Relaxed);
        }
    }
}

pub fn tracing_layer(n: u64) -> Duration {
    use tracing_subscriber::prelude::*;
    let subscriber = tracing_subscriber::registry().with(Timing);
    tracing::subscriber::with_default(subscriber, || (plain!(with_tracing) as Run)(n))
}

struct Discard;
static FASTRACE_SPANS: AtomicU64 = AtomicU64::new(0);

impl fastrace::collector::Reporter for Discard {
    fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
        FASTRACE_SPANS.fetch_add(spans.len() as u64, Relaxed);
    }
}

pub fn fastrace(n: u64) -> Duration {
    use fastrace::prelude::*;
    let begin = thread_time();
    let mut i = 0;
    while i < n {
        let root = Span::root("root", SpanContext::random());
        let _local = root.set_local_parent();
        for _ in 0..BATCH.min(n - i) {
            black_box(with_fastrace(black_box(i)));
            i += 1;
        }
    }
    thread_time() - begin
}

pub fn puffin(n: u64) -> Duration {
    puffin::set_scopes_on(true);
    let begin = thread_time();
    let mut i = 0;
    while i < n {
        {
            puffin::profile_scope!("frame");
            for _ in 0..BATCH.min(n - i) {
                black_box(with_puffin(black_box(i)));
                i += 1;
            }
        }
        puffin::GlobalProfiler::lock().new_frame();
    }
    let time = thread_time() - begin;
    puffin::set_scopes_on(false);
    time
}

/// Starts the collectors that need it; dropped, hotpath's stops.
pub fn start() -> impl Drop {
    fastrace::set_reporter(Discard, fastrace::collector::Config::default());
    hotpath::HotpathGuardBuilder::new("overhead")
        .format(hotpath::Format::None)
        .build()
}

/// Says what the collectors got: a peer that records nothing would look cheap.
pub fn finish() {
    fastrace::flush();
    eprintln!(
        "landed: tracing layer {} spans, {} ns; fastrace {} spans",
        LAYER_COUNT.load(Relaxed),
        LAYER_NS.load(Relaxed),
        FASTRACE_SPANS.load(Relaxed)
    );
}
