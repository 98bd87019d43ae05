//! The tracer's backends on this machine, against programs and clocks that know better.
//!
//! What is traced is this program itself, started again with the name of a scene: so a scene has a
//! process to itself, can be run under `strace` or as another user, and what it leaves behind is
//! its own.
#![allow(missing_docs)]

mod born;
mod child;
mod scenes;
mod threads;
mod waiting;
mod workload;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use child::{Scene, lines, run};
use workload::MIXED;

/// Why a check could not be made.
type Outcome = Result<(), String>;

type Check = (&'static str, fn() -> Outcome);

const CHECKS: [Check; 16] = [
    ("counts_are_those_of_strace_on_perf", || counts("perf")),
    ("counts_are_those_of_strace_on_ptrace", || counts("ptrace")),
    ("times_are_those_of_the_clock_on_perf", || times("perf")),
    ("times_are_those_of_the_clock_on_ptrace", || times("ptrace")),
    ("an_unprivileged_user_gets_the_next_best", unprivileged),
    ("another_tracer_is_named", another_tracer),
    ("an_overflow_is_partial", overflow),
    ("born_threads_are_followed_on_perf", || {
        threads::born("perf")
    }),
    ("born_threads_are_followed_on_ptrace", || {
        threads::born("ptrace")
    }),
    ("a_started_process_is_partial_on_perf", || {
        threads::process("perf")
    }),
    ("a_started_process_is_partial_on_ptrace", || {
        threads::process("ptrace")
    }),
    (
        "without_descriptors_nobody_is_followed",
        threads::few_descriptors,
    ),
    ("who_waits_for_whom_on_perf", || threads::waiting("perf")),
    ("who_waits_for_whom_on_ptrace", || {
        threads::waiting("ptrace")
    }),
    ("a_killed_helper_harms_nobody", killed_helper),
    ("nothing_is_left_behind", nothing_left),
];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = args.as_slice()
        && first == "scene"
    {
        return scenes::play(rest);
    }
    let wanted: Vec<&String> = args.iter().filter(|arg| !arg.starts_with('-')).collect();
    let (mut passed, mut skipped) = (0, 0);
    for (name, check) in CHECKS {
        if !wanted.is_empty() && !wanted.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        match check() {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok");
            }
            Err(why) => {
                skipped += 1;
                println!("test {name} ... ignored, {why}");
            }
        }
    }
    // A check that fails panics.
    println!("test result: ok. {passed} passed; 0 failed; {skipped} ignored");
}

/// One system call, whatever libc would do instead.
fn raw(number: i64, args: [usize; 6]) -> i64 {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the callers pass what the call takes: live buffers with their lengths, descriptors
    // that are open, pages that they have just mapped.
    unsafe { libc::syscall(number, a, b, c, d, e, f) }
}

fn has(tool: &str) -> Result<(), String> {
    match Command::new(tool).arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(format!("{tool} is not there")),
    }
}

fn usable(backend: &str) -> Result<(), String> {
    let scene = run(Scene::new(["status", backend]));
    match scene.get("problem") {
        Some(problem) => Err(problem.join(" ")),
        None => Ok(()),
    }
}

/// The sum over all threads, by number.
fn calls(lines: &[Vec<String>]) -> BTreeMap<i64, u64> {
    let mut sums = BTreeMap::new();
    for line in lines.iter().filter(|line| line[0] == "seen") {
        *sums.entry(line[2].parse().unwrap()).or_default() += line[3].parse::<u64>().unwrap();
    }
    sums
}

/// `strace -f -c` of a program that plays a scene.
fn strace<const N: usize>(scene: [&str; N]) -> BTreeMap<String, u64> {
    let name = format!("brick-strace-{}-{}", std::process::id(), scene.join("-"));
    let table = std::env::temp_dir().join(name);
    let status = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&table)
        .arg(std::env::current_exe().unwrap())
        .arg("scene")
        .args(scene)
        // An arena of the worker's own takes one `munmap` or two, as its address falls.
        .env("MALLOC_ARENA_MAX", "1")
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let text = std::fs::read_to_string(&table).unwrap();
    std::fs::remove_file(&table).unwrap();
    // % time, seconds, usecs/call, calls, errors if any, name.
    let rows = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = fields.last()?.to_string();
        Some((name, fields.get(3)?.parse().ok()?))
    });
    rows.collect()
}

fn counts(backend: &str) -> Outcome {
    has("strace")?;
    usable(backend)?;
    let (without, with) = (strace(["workload", "0"]), strace(["workload", "3"]));
    let seen = calls(&lines(Scene::new(["observe", backend, "mixed", "3"])));
    for (name, number, each) in MIXED {
        let of = |table: &BTreeMap<String, u64>| table.get(name).copied().unwrap_or(0);
        let strace = of(&with) - of(&without);
        assert_eq!(strace, 3 * each, "{name}: the workload itself, by strace");
        assert_eq!(
            seen.get(&number),
            Some(&strace),
            "{name} by {backend}: {seen:?}"
        );
    }
    // And nothing else: no call of the tracer's own.
    let numbers = MIXED.iter().map(|&(_, number, _)| number);
    let others: Vec<_> = seen
        .keys()
        .filter(|n| !numbers.clone().any(|m| m == **n))
        .collect();
    assert!(others.is_empty(), "{others:?} in {seen:?}");
    Ok(())
}

fn times(backend: &str) -> Outcome {
    usable(backend)?;
    let scene = run(Scene::new(["observe", backend, "mixed", "1"]));
    let number = |key: &str| -> f64 { scene[key][0].parse().unwrap() };
    assert!(!scene.contains_key("partial"), "{scene:?}");
    let tracer = number("tracer_us");
    // What observing added to a call, all calls being the same to it. The worker's are not the caller's.
    // The half of it that lies on the call's side of its two stops may be in the clocks' times.
    let others = MIXED.iter().filter(|&&(name, ..)| name != "getuid");
    let added = tracer / others.map(|&(.., each)| each as f64).sum::<f64>();
    // So much may be wrong: a tenth, and on ptrace half of what is added to each call. The clocks
    // around the calls also see what the helper takes, and that of time what other programs do, so
    // the time that they must have taken is the lower bound.
    let near = |what: &str, us: f64, [least, most]: [f64; 2], calls: f64| {
        let added = match backend {
            "perf" => 0.0,
            _ => calls * added / 2.0,
        };
        println!("  {backend} {what}: {us:.1} µs, by the clock {least:.1} to {most:.1} µs");
        let within = 0.9 * least - added..=1.1 * most + added;
        assert!(within.contains(&us), "{what}: {us} µs is not in {within:?}");
    };
    let slept = number("slept_us");
    near("sleeping", number("nanosleep_us"), [60_000.0, slept], 3.0);
    let reading = [number("reading_cpu_us"), number("reading_us")];
    near(
        "reading",
        number("read_us") - number("pread64_us"),
        reading,
        10.0,
    );
    // Three waits of 2 ms; the timer's slack adds to each.
    let futex = number("futex_us");
    assert!((6000.0..).contains(&futex), "{futex}");
    // Not more was taken out than there was.
    let parts: f64 = [
        "mmap", "futex", "ioctl", "read", "write", "other", "compute", "tracer",
    ]
    .iter()
    .map(|part| number(&format!("{part}_us")))
    .sum();
    let wall = number("wall_us");
    assert!((parts - wall).abs() < 1.0, "{parts} of {wall}");
    // All there was to compute is 20 ms of spinning. Waiting for a processor is in the figure too, if
    // it was not because of a stop.
    let (compute, truth) = (number("compute_us"), number("spinning_us"));
    println!("  {backend} computing: {compute:.1} µs, spun {truth:.1} µs of {wall:.1} µs");
    let queue = scene["run_queue_us"][0].parse().unwrap_or(wall);
    let within = 0.9 * truth..=1.1 * truth + queue;
    assert!(within.contains(&compute), "{scene:?}");
    Ok(())
}

fn unprivileged() -> Outcome {
    has("setpriv")?;
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Err("only root can become somebody else".into());
    }
    let scene = Scene::new(["observe", "best", "mixed", "1"]).under([
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=-all",
    ]);
    let scene = match scene.try_run() {
        Some(scene) => scene,
        None => return Err("nobody may not run programs from here".into()),
    };
    assert_ne!(scene["backend"], ["cpu"], "{scene:?}");
    if scene["backend"] == ["ptrace"] {
        let over = scene["passed_over"].join(" ");
        assert!(
            over.starts_with("perf: ") && over.contains("fix: "),
            "{over}"
        );
    }
    Ok(())
}

fn another_tracer() -> Outcome {
    has("strace")?;
    let scene = Scene::new(["observe", "ptrace", "mixed", "1"]);
    let scene = run(scene.under(["strace", "-f", "-o", "/dev/null"]));
    let why = scene["none"].join(" ");
    assert!(
        why.contains("already traced by process") && why.contains("(strace)"),
        "{why}"
    );
    let scene = Scene::new(["observe", "best", "mixed", "1"]);
    let scene = run(scene.under(["strace", "-f", "-o", "/dev/null"]));
    assert!(
        scene["backend"] == ["perf"] || scene["backend"] == ["cpu"],
        "{scene:?}"
    );
    Ok(())
}

fn overflow() -> Outcome {
    usable("perf")?;
    let scene = run(Scene::new(["overflow"]));
    let partial = scene["partial"].join(" ");
    assert!(partial.contains("events were lost"), "{partial}");
    let lost: u64 = partial.split(' ').next().unwrap().parse().unwrap();
    let seen: u64 = scene["calls"][0].parse().unwrap();
    // Two events a call. What was lost and what was seen is what there was, but for calls of which
    // one event was lost, and for the calibration's events.
    let all = lost + 2 * seen;
    assert!(
        seen < 200_000 && (360_000..400_300).contains(&all),
        "{lost} lost, {seen} seen"
    );
    Ok(())
}

fn killed_helper() -> Outcome {
    usable("ptrace")?;
    let scene = run(Scene::new(["killed"]));
    assert_eq!(scene["result"], ["500500"]);
    assert!(
        scene["partial"]
            .join(" ")
            .contains("helper process was killed"),
        "{scene:?}"
    );
    assert_eq!(scene["read_us"], ["n/a"]);
    assert_eq!(scene["tracer"], ["none"]);
    Ok(())
}

fn nothing_left() -> Outcome {
    for (backend, times) in [("perf", "5000"), ("ptrace", "3000"), ("cpu", "2000")] {
        if let Err(why) = usable(backend) {
            println!("  {backend}: not looked at, {why}");
            continue;
        }
        let scene = run(Scene::new(["left", backend, times]));
        for kind in ["fds", "threads", "children", "maps"] {
            assert_eq!(
                scene[kind][0], scene[kind][1],
                "{kind} after {times} × {backend}"
            );
        }
        assert_eq!(scene["escalated"], [times]);
        println!("  {backend}: {} ms for {times}", scene["ms"][0]);
    }
    Ok(())
}
