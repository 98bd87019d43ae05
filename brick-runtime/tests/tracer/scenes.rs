//! What the program does when it is the traced one: it prints what it saw, for the checks.

use std::fs::{self, File};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Instant;

use brick_runtime::BrickInfo;
use brick_runtime::tracer::{
    BrickTracer, SyscallBreakdown, SyscallCategory, TraceBackend, TracedBrickResult, backends,
};

use super::workload::{Mixed, Truth};
use super::{born, raw, waiting};

pub(crate) static SCENE: BrickInfo =
    BrickInfo::new("Scene", module_path!(), "play", file!(), line!());

pub(crate) fn play(args: &[String]) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["workload", n] => {
            let mut mixed = Mixed::new();
            for _ in 0..n.parse().unwrap() {
                mixed.run();
            }
            mixed.quit();
        }
        ["status", backend] => {
            let all = backends();
            let status = all
                .iter()
                .find(|status| status.backend.name() == backend)
                .unwrap();
            if let Some(problem) = &status.problem {
                println!("problem {problem}");
            }
        }
        ["observe", backend, "mixed", n] => observe(backend, n.parse().unwrap()),
        ["born", n] => {
            born::all(n.parse().unwrap());
        }
        ["observe", backend, "born", n, "beside", idle] => {
            waiting::start(idle.parse().unwrap());
            let n = n.parse().unwrap();
            tell(&tracer(backend).trace_now(&SCENE, 1000, || born::all(n)));
        }
        ["observe", backend, "born", n] => {
            let n = n.parse().unwrap();
            tell(&tracer(backend).trace_now(&SCENE, 1000, || born::all(n)));
        }
        ["observe", backend, "process"] => {
            let run = || {
                Command::new("/proc/self/exe")
                    .args(["scene", "workload", "0"])
                    .status()
            };
            tell(&tracer(backend).trace_now(&SCENE, 1000, run));
        }
        ["observe", backend, "waiting"] => waiting::play(&tracer(backend)),
        ["overflow"] => overflow(),
        ["killed"] => killed(),
        ["left", backend, times] => left(backend, times.parse().unwrap()),
        _ => panic!("no such scene: {args:?}"),
    }
}

fn tracer(backend: &str) -> BrickTracer {
    let tracer = BrickTracer::new();
    let all = TraceBackend::ALL;
    match all.into_iter().find(|known| known.name() == backend) {
        Some(backend) => tracer.with_backend(backend),
        None => tracer,
    }
}

fn observe(backend: &str, n: u32) {
    let mut mixed = Mixed::new();
    let traced = tracer(backend).trace_now(&SCENE, 1000, || {
        let mut truth = Truth::default();
        for _ in 0..n {
            truth = mixed.run();
        }
        truth
    });
    mixed.quit();
    let truth = traced.result;
    for (name, time) in [
        ("slept", truth.slept),
        ("reading", truth.reading),
        ("reading_cpu", truth.reading_cpu),
        ("spinning", truth.spinning),
    ] {
        println!("{name}_us {}", time.as_secs_f64() * 1e6);
    }
    tell(&traced);
}

pub(crate) fn tell<T>(traced: &TracedBrickResult<T>) {
    let Some(breakdown) = &traced.syscall_breakdown else {
        println!("none {}", traced.no_breakdown.as_deref().unwrap_or("?"));
        return;
    };
    println!("backend {}", breakdown.backend);
    for category in SyscallCategory::ALL {
        println!("{}_us {}", category.name(), breakdown.us(category));
    }
    for (name, figure) in [
        ("compute", &breakdown.compute_us),
        ("tracer", &breakdown.tracer_us),
        ("wall", &breakdown.wall_us),
        ("run_queue", &breakdown.run_queue_us),
        ("resolution", &breakdown.resolution_us),
    ] {
        println!("{name}_us {figure}");
    }
    if let Some(partial) = &breakdown.partial {
        println!("partial {partial}");
    }
    for problem in &breakdown.passed_over {
        println!("passed_over {problem}");
    }
    threads(breakdown);
}

fn threads(breakdown: &SyscallBreakdown) {
    for thread in &breakdown.threads {
        let name = thread.name.as_deref().unwrap_or("?");
        println!("thread {} {name}", thread.tid);
        if let Some(number) = thread.blocked_in {
            println!("blocked {} {number}", thread.tid);
        }
        for (number, usage) in &thread.by_number {
            println!(
                "seen {} {number} {} {} {}",
                thread.tid, usage.calls, usage.cut, usage.us
            );
            match *number {
                libc::SYS_nanosleep => println!("nanosleep_us {}", usage.us),
                libc::SYS_pread64 => println!("pread64_us {}", usage.us),
                _ => {}
            }
        }
    }
}

/// More than one page holds, faster than anybody can empty it.
fn overflow() {
    let tracer = tracer("perf").with_ring_pages(NonZeroUsize::MIN);
    let traced = tracer.trace_now(&SCENE, 1000, || {
        for _ in 0..200_000 {
            raw(libc::SYS_getuid, [0; 6]);
        }
    });
    let breakdown = traced.syscall_breakdown.as_ref().unwrap();
    println!(
        "calls {}",
        breakdown.caller().map_or(0, |caller| caller.total().calls)
    );
    tell(&traced);
}

/// Somebody kills the helper while the brick runs.
fn killed() {
    let null = File::options().write(true).open("/dev/null").unwrap();
    let traced = tracer("ptrace").trace_now(&SCENE, 1000, || {
        let mut sum = 0;
        for i in 1..=1000 {
            raw(libc::SYS_write, [null.as_raw_fd() as usize, 0, 0, 0, 0, 0]);
            sum += i;
            if i == 500 {
                for child in children() {
                    // SAFETY: a child of this process, which has only the helper.
                    unsafe { libc::kill(child, libc::SIGKILL) };
                }
            }
        }
        sum
    });
    println!("result {}", traced.result);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let traced_by = status
        .lines()
        .find(|line| line.starts_with("TracerPid:"))
        .unwrap();
    let is_free = traced_by.split_whitespace().nth(1) == Some("0");
    println!("tracer {}", if is_free { "none" } else { "still" });
    tell(&traced);
}

/// This process' children, dead ones too.
fn children() -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children"));
    let all: String = tasks
        .map(|task| of(task.unwrap()).unwrap_or_default())
        .collect();
    all.split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect()
}

fn left(backend: &str, times: u32) {
    let tracer = tracer(backend);
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let look = || {
        [
            ("fds", count("/proc/self/fd")),
            ("threads", count("/proc/self/task")),
            ("children", children().len()),
            (
                "maps",
                fs::read_to_string("/proc/self/maps")
                    .unwrap()
                    .matches("perf_event")
                    .count(),
            ),
        ]
    };
    tracer.trace_now(&SCENE, 1000, || ());
    let before = look();
    let begin = Instant::now();
    for _ in 1..times {
        let traced = tracer.trace_now(&SCENE, 1000, || raw(libc::SYS_getuid, [0; 6]));
        assert!(traced.syscall_breakdown.is_some());
    }
    println!("ms {}", begin.elapsed().as_millis());
    for ((kind, before), (_, after)) in before.into_iter().zip(look()) {
        println!("{kind} {before} {after}");
    }
    println!("escalated {}", tracer.counts().escalated);
}
