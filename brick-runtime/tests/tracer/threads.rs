//! Whose calls they are.

use super::born::BORN;
use super::child::{Scene, lines};
use super::waiting::{READS, SLEEP};
use super::{Outcome, calls, has, strace, usable};

type Lines = Vec<Vec<String>>;

/// Of the lines that begin so, the rest.
fn all<'a>(lines: &'a Lines, first: &[&str]) -> Vec<&'a [String]> {
    let begins = |line: &&Vec<String>| {
        line.len() >= first.len() && line.iter().zip(first).all(|(a, b)| a == b)
    };
    let rest = lines.iter().filter(begins);
    rest.map(|line| &line[first.len()..]).collect()
}

/// Of the one line that begins so, the rest.
fn one(lines: &Lines, first: &[&str]) -> String {
    match all(lines, first)[..] {
        [rest] => rest.join(" "),
        ref found => panic!("{} lines of {first:?} in {lines:?}", found.len()),
    }
}

/// Calls, calls cut off and microseconds of a thread's calls of one number; `None` if it made none.
fn seen(lines: &Lines, tid: &str, number: i64) -> Option<(u64, u64, f64)> {
    let rows = all(lines, &["seen", tid, &number.to_string()]);
    let row = rows.first()?;
    let [calls, cut, us] = row else {
        panic!("{row:?}")
    };
    Some((
        calls.parse().unwrap(),
        cut.parse().unwrap(),
        us.parse().unwrap(),
    ))
}

/// Threads that a brick starts, and those that these start: counted as by strace, each with its own
/// calls, by its name.
pub(crate) fn born(backend: &str) -> Outcome {
    has("strace")?;
    usable(backend)?;
    let (without, with) = (strace(["born", "0"]), strace(["born", "4"]));
    let lines = lines(Scene::new(["observe", backend, "born", "4"]));
    assert!(all(&lines, &["partial"]).is_empty(), "{lines:?}");
    let sums = calls(&lines);
    for (name, number, each) in BORN {
        let of =
            |table: &std::collections::BTreeMap<String, u64>| table.get(name).copied().unwrap_or(0);
        let strace = of(&with) - of(&without);
        assert_eq!(strace, 4 * each, "{name}: the scene itself, by strace");
        assert_eq!(
            sums.get(&number),
            Some(&strace),
            "{name} by {backend}: {sums:?}"
        );
    }
    let born = all(&lines, &["born"]);
    assert_eq!(born.len(), 4 * 6);
    for thread in born {
        let [tid, name] = thread else {
            panic!("{thread:?}")
        };
        let i: u64 = name.rsplit('-').next().unwrap().parse().unwrap();
        let (calls, cut, _) = seen(&lines, tid, libc::SYS_getuid).expect("its calls");
        assert_eq!((calls, cut), (10 * i, 0), "{name}");
        assert_eq!(&one(&lines, &["thread", tid]), name);
        // Nothing of what it is born and ends with is left open.
        assert!(all(&lines, &["blocked", tid]).is_empty());
        assert_eq!(seen(&lines, tid, libc::SYS_exit), None);
        let clone3 = seen(&lines, tid, libc::SYS_clone3);
        let starts = u64::from(name.starts_with("child"));
        assert_eq!(
            clone3.map_or(0, |(calls, cut, _)| calls + cut),
            starts,
            "{name}"
        );
    }
    Ok(())
}

pub(crate) fn process(backend: &str) -> Outcome {
    usable(backend)?;
    let lines = lines(Scene::new(["observe", backend, "process"]));
    let partial = one(&lines, &["partial"]);
    assert!(
        partial.starts_with("1 threads or processes started meanwhile are not in it"),
        "{partial}"
    );
    Ok(())
}

/// Where the events of all threads on all processors would take too many descriptors.
pub(crate) fn few_descriptors() -> Outcome {
    usable("perf")?;
    has("prlimit")?;
    // Nine threads: 18 events and what a process needs itself, but not twice that.
    let scene = Scene::new(["observe", "perf", "born", "1", "beside", "8"]);
    let lines = lines(scene.under(["prlimit", "--nofile=34:34"]));
    let partial = one(&lines, &["partial"]);
    // The grandchildren are started by threads that nobody sees.
    assert!(
        partial.starts_with("3 threads or processes started meanwhile are not in it")
            && partial.contains("raise the limit with ulimit -n"),
        "{partial}"
    );
    assert_eq!(calls(&lines).get(&libc::SYS_clone3), Some(&3));
    assert_eq!(calls(&lines).get(&libc::SYS_getuid), None);
    assert_eq!(all(&lines, &["blocked"]).len(), 8, "{lines:?}");
    Ok(())
}

/// The brick waits in a futex for a thread that sleeps and reads; another waits for neither.
pub(crate) fn waiting(backend: &str) -> Outcome {
    usable(backend)?;
    let lines = lines(Scene::new(["observe", backend, "waiting"]));
    assert!(all(&lines, &["partial"]).is_empty(), "{lines:?}");
    let wall: f64 = one(&lines, &["wall_us"]).parse().unwrap();
    let [caller, worker, bystander] =
        ["caller", "worker", "bystander"].map(|who| one(&lines, &[who]));
    let slept = SLEEP.as_secs_f64() * 1e6;
    let us = |tid: &str, number| seen(&lines, tid, number).map_or(0.0, |(_, _, us)| us);

    assert!(one(&lines, &["thread", &worker]).starts_with("pool "));
    let (sleeps, _, sleep_us) =
        seen(&lines, &worker, libc::SYS_clock_nanosleep).expect("its sleep");
    let (reads, _, read_us) = seen(&lines, &worker, libc::SYS_read).expect("its reads");
    assert_eq!((sleeps, reads), (1, READS));
    assert!(
        sleep_us >= 0.99 * slept && sleep_us < wall,
        "{sleep_us} of {wall}"
    );
    assert!(read_us > 0.0);
    // It waited for work before, but not while it worked.
    assert!(us(&worker, libc::SYS_futex) < wall - slept);

    let futex_us = us(&caller, libc::SYS_futex);
    println!(
        "  {backend}: the caller waited {futex_us:.0} µs of {wall:.0} µs, the worker slept {sleep_us:.0} µs and read {read_us:.0} µs"
    );
    assert!(
        futex_us >= 0.9 * (sleep_us + read_us) && futex_us <= wall,
        "{futex_us}"
    );
    assert_eq!(seen(&lines, &caller, libc::SYS_clock_nanosleep), None);
    assert_eq!(seen(&lines, &caller, libc::SYS_read), None);
    assert!(all(&lines, &["blocked", &caller]).is_empty());

    // It makes no event at all, and is there all the same.
    assert_eq!(one(&lines, &["thread", &bystander]), "bystander");
    assert_eq!(
        one(&lines, &["blocked", &bystander]),
        libc::SYS_futex.to_string()
    );
    let (calls, cut, us) = seen(&lines, &bystander, libc::SYS_futex).expect("its wait");
    assert_eq!((calls, cut), (0, 1));
    assert!((us - wall).abs() < 0.01 * wall + 100.0, "{us} of {wall}");
    Ok(())
}
