//! What is behind the handle.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::clock;
use crate::device::{self, Device, SyncMode};
use crate::figure::Figure;
use crate::hook::{Site, mode};
use crate::registry::BrickInfo;
use crate::slab::{self, read, sites};
use crate::snapshot::Snapshot;
use crate::stats::BrickStats;
use crate::timeline;

static TOKENS: AtomicU64 = AtomicU64::new(0);

/// Wall time while enabled.
struct Wall {
    before: Duration,
    since: Option<Instant>,
}

fn wall() -> MutexGuard<'static, Wall> {
    static WALL: Mutex<Wall> = Mutex::new(Wall {
        before: Duration::ZERO,
        since: None,
    });
    WALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wall {
    fn elapsed(&self) -> Duration {
        self.before + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// Starts the wall clock: with the first brick or the first use of the handle.
pub(crate) fn start_wall() {
    // Takes a millisecond, once; at the first budget it would be in the time of whatever runs then.
    clock::from_ns(0);
    wall().since = Some(Instant::now());
}

pub(super) fn ready() {
    mode::ready();
}

pub(super) fn is_enabled() -> bool {
    mode::enabled()
}

pub(super) fn set_enabled(on: bool) {
    mode::set_enabled(on);
    let mut wall = wall();
    wall.before = wall.elapsed();
    wall.since = on.then(Instant::now);
}

pub(super) fn wall_ns() -> u64 {
    u64::try_from(wall().elapsed().as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn tokens() -> u64 {
    TOKENS.load(Relaxed)
}

pub(super) fn add_tokens(n: u64) {
    TOKENS.fetch_add(n, Relaxed);
}

pub(super) fn reset() {
    read::reset();
    if let Some(slab) = slab::owned() {
        slab.clear_now();
    }
    TOKENS.store(0, Relaxed);
    let mut wall = wall();
    wall.before = Duration::ZERO;
    wall.since = wall.since.map(|_| Instant::now());
}

pub(super) fn snapshot() -> Snapshot {
    // Before the profiler measures itself, which is no time of the program's.
    let wall_ns = wall_ns();
    // A call that a timeline has costs what that takes.
    let ns_per_hook = if mode::recording() {
        Figure::Measured(timeline::live::ns_per_event())
    } else {
        ns_per_hook()
    };
    let totals = read::totals();
    let ns_per_tick = clock::ns_per_tick();
    let bricks = totals.bricks.into_iter().filter_map(|(index, tally)| {
        let info = sites::info(index).filter(|info| !std::ptr::eq(*info, &CALIBRATION))?;
        Some(BrickStats::new(info, tally, ns_per_tick))
    });
    Snapshot {
        unavailable: None,
        bricks: bricks.collect(),
        wall_ns,
        tokens: tokens(),
        dropped: totals.dropped,
        folds: totals.folds,
        ns_per_hook,
        ns_per_tick,
    }
}

/// The brick that the profiler measures itself with; in no report.
static CALIBRATION: BrickInfo = BrickInfo::new(
    "(profiler)",
    module_path!(),
    "measure_hook",
    file!(),
    line!(),
);

/// What one hook costs, measured once on empty calls.
pub(crate) fn ns_per_hook() -> Figure {
    static MEASURED: OnceLock<f64> = OnceLock::new();
    if !mode::enabled() && MEASURED.get().is_none() {
        return Figure::unavailable("the profiler is disabled");
    }
    Figure::Measured(*MEASURED.get_or_init(measure_hook))
}

/// The best of a few rounds: the one that was interrupted least.
fn measure_hook() -> f64 {
    // Miri measures nothing real, and takes its time.
    const ROUNDS: usize = if cfg!(miri) { 1 } else { 16 };
    const CALLS: u32 = if cfg!(miri) { 16 } else { 512 };
    let round = || {
        let begin = Instant::now();
        call_calibration(CALLS);
        begin.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    round();
    (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

/// Makes empty calls, which no report shows.
pub(crate) fn call_calibration(calls: u32) {
    static SITE: Site = Site::new(&CALIBRATION);
    for _ in 0..calls {
        SITE.open().start().end();
    }
}

static SYNC_MODE: AtomicU8 = AtomicU8::new(SyncMode::Deferred as u8);

pub(super) fn clock() -> Option<&'static str> {
    Some(clock::name())
}

pub(super) fn sync_mode() -> SyncMode {
    if SYNC_MODE.load(Relaxed) == SyncMode::Eager as u8 {
        SyncMode::Eager
    } else {
        SyncMode::Deferred
    }
}

pub(super) fn set_sync_mode(mode: SyncMode) {
    SYNC_MODE.store(mode as u8, Relaxed);
    apply_sync_mode();
}

pub(super) fn set_device(device: Option<Box<dyn Device>>) {
    device::set(device);
    apply_sync_mode();
}

/// Bricks take the slow path only where there is something to wait for.
fn apply_sync_mode() {
    mode::set_eager(sync_mode() == SyncMode::Eager && device::present());
}

/// At the end of a layer: waits for the device, where that is when.
pub(crate) fn synchronize_if_deferred() {
    if sync_mode() == SyncMode::Deferred && mode::enabled() {
        device::synchronize();
    }
}
