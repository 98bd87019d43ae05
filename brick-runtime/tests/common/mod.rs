//! Bricks without the attribute: the hooks as the macro calls them.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::time::{Duration, Instant};

#[cfg(feature = "visualization")]
use brick_runtime::__private::Site;
use brick_runtime::{BrickProfiler, BrickStats, Snapshot};

/// A site of its own for each use.
#[macro_export]
macro_rules! site {
    ($name:literal $(, $($builder:tt)*)?) => {{
        static INFO: brick_runtime::BrickInfo =
            brick_runtime::BrickInfo::new($name, module_path!(), "test", file!(), line!())$($($builder)*)?;
        static SITE: brick_runtime::__private::Site = brick_runtime::__private::Site::new(&INFO);
        &SITE
    }};
}

/// One call around `body`.
#[cfg(feature = "visualization")]
pub(crate) fn call<R>(site: &'static Site, body: impl FnOnce() -> R) -> R {
    let guard = site.open().start();
    let result = body();
    guard.exit();
    result
}

/// Works for `time`.
pub(crate) fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// The statistics of the brick called `name`, as of now.
pub(crate) fn stats(name: &str) -> Option<BrickStats> {
    of(&BrickProfiler::global().snapshot(), name)
}

/// The statistics of the brick called `name`.
pub(crate) fn of(snapshot: &Snapshot, name: &str) -> Option<BrickStats> {
    snapshot.find(|info| info.name == name).cloned()
}
