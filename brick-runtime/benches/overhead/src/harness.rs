//! Interleaved, paired samples of thread CPU time.

use std::sync::Barrier;
use std::time::Duration;

/// Runs a contender `n` times: the CPU time it took.
pub type Run = fn(u64) -> Duration;

pub struct Contender {
    pub name: &'static str,
    pub run: Run,
    /// What it is held against.
    pub floor: Run,
}

/// Calls `$f` n times and times the loop as a whole.
#[macro_export]
macro_rules! plain {
    ($f:path) => {
        |n| {
            let begin = $crate::harness::thread_time();
            for i in 0..n {
                std::hint::black_box($f(std::hint::black_box(i)));
            }
            $crate::harness::thread_time() - begin
        }
    };
}

/// The calling thread's CPU time since some epoch.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a live timespec.
    assert_eq!(
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) },
        0
    );
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Memory of this process that is in RAM, where the system tells.
pub fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

pub struct Row {
    pub name: &'static str,
    pub median: f64,
    pub p10: f64,
    pub min: f64,
    pub max: f64,
    /// Median over the pairs of sample / floor.
    pub ratio: f64,
}

/// Calls `f` with `depth` × 272 bytes more on the stack. Where a stack ends is random; where what
/// `f` puts there has the lower 12 bits of an address in a slab, the processor takes loads from
/// there for dependent, and a call costs 3 ns more. That is luck, and each round has another.
#[inline(never)]
fn at_depth(depth: usize, f: &dyn Fn() -> f64) -> f64 {
    let padding = std::hint::black_box([0u8; 256]);
    let result = match depth {
        0 => f(),
        _ => at_depth(depth - 1, f),
    };
    std::hint::black_box(padding);
    result
}

/// Depths that `at_depth` is called with: together they walk over a page.
const DEPTHS: usize = 15;

/// One sample: `threads` threads run `n` calls each at once; ns per call of the slowest.
fn sample(run: Run, n: u64, threads: usize, depth: usize) -> f64 {
    let per_call = || at_depth(depth, &|| run(n).as_nanos() as f64 / n as f64);
    if threads == 1 {
        return per_call();
    }
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    per_call()
                })
            })
            .collect();
        started
            .into_iter()
            .map(|t| t.join().expect("no contender panics"))
            .fold(0.0, f64::max)
    })
}

/// Calls that take about `ms` milliseconds.
fn size(run: Run, threads: usize, ms: f64) -> u64 {
    let per_call = (0..3)
        .map(|_| sample(run, 5_000, threads, 0))
        .fold(f64::MAX, f64::min)
        .max(0.3);
    ((ms * 1e6 / per_call) as u64).clamp(2_000, 20_000_000)
}

/// The `q`-quantile (nearest rank) of `values`, which it sorts.
fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q).round() as usize]
}

/// `rounds` times through the list, each sample next to one of its floor.
pub fn measure(list: &[&'static Contender], threads: usize, rounds: usize, ms: f64) -> Vec<Row> {
    let sizes: Vec<(u64, u64)> = list
        .iter()
        .map(|c| (size(c.run, threads, ms), size(c.floor, threads, ms)))
        .collect();
    let mut samples = vec![(Vec::new(), Vec::new()); list.len()];
    for round in 0..rounds {
        let depth = round % DEPTHS;
        for ((contender, &(n, floor_n)), (ns, ratios)) in list.iter().zip(&sizes).zip(&mut samples)
        {
            let floor = sample(contender.floor, floor_n, threads, depth);
            let own = sample(contender.run, n, threads, depth);
            ns.push(own);
            ratios.push(own / floor);
            // Lets background collectors (hotpath's, fastrace's) drain off the clock.
            if ["hotpath", "fastrace"]
                .iter()
                .any(|peer| contender.name.starts_with(peer))
            {
                std::thread::sleep(Duration::from_millis(30));
            }
        }
    }
    let row =
        |(contender, (mut ns, mut ratios)): (&&'static Contender, (Vec<f64>, Vec<f64>))| Row {
            name: contender.name,
            median: quantile(&mut ns, 0.5),
            p10: quantile(&mut ns, 0.1),
            min: quantile(&mut ns, 0.0),
            max: quantile(&mut ns, 1.0),
            ratio: quantile(&mut ratios, 0.5),
        };
    list.iter().zip(samples).map(row).collect()
}
