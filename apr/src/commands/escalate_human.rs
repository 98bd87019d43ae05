//! Escalated calls for people.

use super::escalate::{Brick, Escalated, Thread, Usage};
use crate::terminal::{one_line, table};
use brick_runtime::Figure;
use brick_runtime::tracer::SyscallCategory;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Prints what became of a phase's escalated calls.
pub(super) fn print(escalated: &Escalated, phase: &str, out: &mut impl Write) -> io::Result<()> {
    let calls = escalated.calls;
    writeln!(
        out,
        "\nescalated calls of {phase}: {calls} ({})",
        limits(escalated)
    )?;
    if calls == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "one call of the brick each, in no figure above; µs a call and system calls a call, of the thread \
         that made it; wall measured, all else derived: observed times − what observing added"
    )?;
    let categories = SyscallCategory::ALL.map(SyscallCategory::name);
    let mut header = vec![
        "brick", "calls", "why", "backend", "wall µs", "compute", "tracer",
    ];
    header.extend(categories);
    let mut rows = table(header, &[1, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    for brick in &escalated.bricks {
        let mut row = vec![
            brick.brick.to_owned(),
            brick.calls.to_string(),
            brick.reason.to_string(),
            brick
                .backend
                .map_or("–", |backend| backend.name())
                .to_owned(),
            each(&brick.wall_us, brick),
            each(&brick.compute_us, brick),
            each(&brick.tracer_us, brick),
        ];
        row.extend(categories.map(|name| usage(brick.syscalls.get(name), brick)));
        rows.add_row(row);
    }
    writeln!(out, "{}", rows.trim_fmt())?;
    for brick in &escalated.bricks {
        notes(brick, out)?;
    }
    // The same for all calls, but for one that failed for the moment.
    let passed_over = escalated.bricks.iter().flat_map(|brick| &brick.passed_over);
    for problem in passed_over
        .map(ToString::to_string)
        .collect::<BTreeSet<_>>()
    {
        writeln!(out, "not observed with {}", one_line(&problem))?;
    }
    Ok(())
}

fn limits(escalated: &Escalated) -> String {
    let Escalated {
        cv,
        efficiency,
        rate_limited,
        max_per_second,
        ..
    } = escalated;
    let mut text = format!(
        "bricks past CV {:.0} % or below efficiency {:.0} %",
        100.0 * cv,
        100.0 * efficiency
    );
    if *rate_limited > 0 {
        text += &format!("; {rate_limited} more but for the limit of {max_per_second} a second");
    }
    if let Some(ns) = escalated.left_out_ns.value() {
        text += &format!("; {:.2} ms left out of the phase, measured", ns / 1e6);
    }
    text
}

/// A figure for each of the brick's calls.
fn each(sum: &Figure, brick: &Brick) -> String {
    match sum.value() {
        Some(us) => format!("{:.1}", us / brick.calls as f64),
        None => "n/a".into(),
    }
}

/// `12.3 (2)`: microseconds and calls; 0 where there was none.
fn usage(usage: Option<&Usage>, brick: &Brick) -> String {
    match usage.map(|usage| (usage.us.value(), usage.calls)) {
        Some((Some(us), Some(calls))) if calls > 0 || us > 0.0 => {
            let n = brick.calls as f64;
            format!("{:.1} ({:.1})", us / n, calls as f64 / n)
        }
        Some((Some(_), Some(_))) => "0".into(),
        _ => "n/a".into(),
    }
}

/// Who else was there, and what is missing.
fn notes(brick: &Brick, out: &mut impl Write) -> io::Result<()> {
    let name = brick.brick;
    let waiting: Vec<String> = brick
        .threads
        .iter()
        .filter_map(|t| waited(t, brick))
        .collect();
    if !waiting.is_empty() {
        writeln!(
            out,
            "{name}: waiting from beginning to end: {}",
            waiting.join(", ")
        )?;
    }
    if let Some(partial) = &brick.partial {
        let n = brick.partial_calls;
        writeln!(
            out,
            "{name}: {n} of {} calls partial: {}",
            brick.calls,
            one_line(partial)
        )?;
    }
    if let Some(why) = &brick.no_breakdown {
        writeln!(out, "{name}: no breakdown: {}", one_line(why))?;
    }
    Ok(())
}

/// `worker 1 (8579) in futex 6 of 12 calls`; `None` of a thread that did not wait.
fn waited(thread: &Thread, brick: &Brick) -> Option<String> {
    let calls = thread.waited_in.iter();
    let calls: Vec<String> = calls.map(|(call, n)| format!("{call} {n}")).collect();
    let name = thread.name.as_deref().map_or_else(|| "?".into(), one_line);
    let (tid, calls, of) = (thread.tid, calls.join(", "), brick.calls);
    (!calls.is_empty()).then(|| format!("{name} ({tid}) in {calls} of {of} calls"))
}
