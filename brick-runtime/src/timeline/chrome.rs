//! The trace event format of Chrome, which Perfetto reads too
//! (<https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>).

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::text::{Json, Micros};
use super::{Event, EventKind, Outcome, Timeline};

impl Timeline {
    /// Writes one JSON object that chrome://tracing and <https://ui.perfetto.dev> open: slices
    /// (`X`), names (`M`), a counter of the threads that are in bricks (`C`), and arrows (`s`, `t`, `f`)
    /// from poll to poll of async calls, and from the begin of a call to the work that it handed to another
    /// thread. Times are microseconds from the recording's start, all
    /// digits; when that was is in `otherData`.
    ///
    /// Slices of one thread nest. A scope that outlives what it was opened in can't be one: it is
    /// an async pair (`b`, `e`).
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_chrome(&self, process: &str, out: &mut impl Write) -> io::Result<()> {
        let mut list = List { out, first: true };
        write!(
            list.out,
            r#"{{"displayTimeUnit":"ns","otherData":{{"schema":"brick.chrome/1","start_unix_ns":"{}","duration_ns":"{}","dropped":"{}","ns_per_recorded_call":"{}"}},"traceEvents":["#,
            self.clock.start_unix_ns, self.clock.duration_ns, self.dropped, self.ns_per_event,
        )?;
        self.names(process, &mut list)?;
        self.slices(&mut list)?;
        self.flows(&mut list)?;
        self.launches(&mut list)?;
        self.counter(&mut list)?;
        writeln!(list.out, "\n]}}")
    }

    fn names(&self, process: &str, list: &mut List<'_, impl Write>) -> io::Result<()> {
        let meta = |name: &str, tid: usize, args: String| {
            let pid = std::process::id();
            format!(r#""name":"{name}","ph":"M","pid":{pid},"tid":{tid},"args":{{{args}}}"#)
        };
        list.item(&meta(
            "process_name",
            0,
            format!(r#""name":{}"#, Json(process)),
        ))?;
        for (index, thread) in self.threads.iter().enumerate() {
            let name = match (&thread.name, thread.os_id) {
                (Some(name), Some(id)) => format!("{name} ({id})"),
                (Some(name), None) => name.clone(),
                (None, Some(id)) => format!("thread {id}"),
                (None, None) => format!("thread {index}"),
            };
            let tid = tid(index);
            list.item(&meta(
                "thread_name",
                tid,
                format!(r#""name":{}"#, Json(&name)),
            ))?;
            list.item(&meta(
                "thread_sort_index",
                tid,
                format!(r#""sort_index":{index}"#),
            ))?;
        }
        Ok(())
    }

    fn slices(&self, list: &mut List<'_, impl Write>) -> io::Result<()> {
        // Of the slices that are open on the thread: their ends, the innermost last.
        let mut open: Vec<u64> = Vec::new();
        let mut thread = None;
        for (index, event) in self.events.iter().enumerate() {
            if thread.replace(event.thread) != Some(event.thread) {
                open.clear();
            }
            while open
                .last()
                .is_some_and(|&end| end <= event.start_ns && end < event.end_ns)
            {
                open.pop();
            }
            let (start, duration) = (Micros(event.start_ns), Micros(event.duration_ns()));
            let (head, args) = (head(event), args(event));
            if open.last().is_none_or(|&end| event.end_ns <= end) {
                open.push(event.end_ns);
                list.item(&format!(
                    r#"{head},"ph":"X","ts":{start},"dur":{duration},"args":{{{args}}}"#
                ))?;
            } else {
                let end = Micros(event.end_ns);
                list.item(&format!(
                    r#"{head},"ph":"b","id":{index},"ts":{start},"args":{{{args}}}"#
                ))?;
                list.item(&format!(r#"{head},"ph":"e","id":{index},"ts":{end}"#))?;
            }
        }
        Ok(())
    }

    /// An arrow through the polls of each async call, each at its start, which is in its slice.
    fn flows(&self, list: &mut List<'_, impl Write>) -> io::Result<()> {
        let mut calls: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
        for event in &self.events {
            if let Some(call) = event.call {
                calls.entry(call).or_default().push(event);
            }
        }
        for (call, mut polls) in calls.into_iter().filter(|(_, polls)| polls.len() > 1) {
            polls.sort_by_key(|poll| poll.start_ns);
            let last = polls.len() - 1;
            for (number, poll) in polls.into_iter().enumerate() {
                let step = match number {
                    0 => r#""ph":"s""#,
                    n if n == last => r#""ph":"f","bp":"e""#,
                    _ => r#""ph":"t""#,
                };
                let (head, ts) = (head(poll), Micros(poll.start_ns));
                list.item(&format!(r#"{head},{step},"id":{call},"ts":{ts}"#))?;
            }
        }
        Ok(())
    }

    /// An arrow from the begin of what handed work to another thread, to the begin of that work.
    fn launches(&self, list: &mut List<'_, impl Write>) -> io::Result<()> {
        for (index, work) in self.events.iter().enumerate() {
            let launcher = work.launched_by.map(|by| &self.events[by]);
            // Counters of two cores may differ by a little: no arrow points back.
            let forward = |by: &&Event| by.thread != work.thread && by.start_ns <= work.start_ns;
            let Some(by) = launcher.filter(forward) else {
                continue;
            };
            for (event, step) in [(by, r#""ph":"s""#), (work, r#""ph":"f","bp":"e""#)] {
                let (pid, tid, ts) = (
                    std::process::id(),
                    tid(event.thread),
                    Micros(event.start_ns),
                );
                list.item(&format!(
                    r#""name":"launches","cat":"launch","pid":{pid},"tid":{tid},{step},"id":"launch {index}","ts":{ts}"#
                ))?;
            }
        }
        Ok(())
    }

    /// How many threads are in a brick, whenever that changes.
    fn counter(&self, list: &mut List<'_, impl Write>) -> io::Result<()> {
        let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
        for index in (0..self.events.len()).filter(|&index| self.is_outermost_brick(index)) {
            let event = &self.events[index];
            *changes.entry(event.start_ns).or_default() += 1;
            *changes.entry(event.end_ns).or_default() -= 1;
        }
        changes.retain(|_, change| *change != 0);
        let (pid, mut threads) = (std::process::id(), 0);
        for (ns, change) in changes {
            threads += change;
            let ts = Micros(ns);
            list.item(&format!(
                r#""name":"threads in bricks","ph":"C","pid":{pid},"tid":0,"ts":{ts},"args":{{"threads":{threads}}}"#
            ))?;
        }
        Ok(())
    }

    /// A call or poll that is in no other one.
    fn is_outermost_brick(&self, event: usize) -> bool {
        let is_call =
            |event: &Event| matches!(event.kind, EventKind::Brick(_) | EventKind::Poll(_));
        is_call(&self.events[event]) && !self.ancestors(event).skip(1).any(is_call)
    }
}

/// The thread's number: not the system's, which may be given to a second thread.
fn tid(thread: usize) -> usize {
    thread + 1
}

fn head(event: &Event) -> String {
    let category = match event.kind {
        EventKind::Brick(info) | EventKind::Poll(info) => info.category,
        EventKind::Check(_) => "check",
        EventKind::Fold => "profiler",
        _ => "scope",
    };
    let name = match event.kind {
        EventKind::Layer(layer) => format!("layer {layer}"),
        EventKind::Token(position) => format!("token {position}"),
        kind => kind.to_string(),
    };
    format!(
        r#""name":{},"cat":{},"pid":{},"tid":{}"#,
        Json(&name),
        Json(category),
        std::process::id(),
        tid(event.thread)
    )
}

/// What else is known of an event; what isn't, isn't there.
fn args(event: &Event) -> String {
    let numbers = [
        ("layer", event.layer),
        ("position", event.position),
        ("flops", event.work.flops),
        ("bytes", event.work.bytes),
        ("tokens", event.work.tokens),
        ("elements", event.work.elements),
    ];
    let known = numbers
        .into_iter()
        .filter_map(|(name, value)| Some(format!(r#""{name}":{}"#, value?)));
    let mut args: Vec<String> = known.collect();
    match event.outcome {
        Outcome::Ended => {}
        Outcome::Panicked => args.push(r#""outcome":"panicked""#.into()),
        Outcome::Open => args.push(r#""outcome":"open when the recording stopped""#.into()),
    }
    if let Some(failure) = &event.failure {
        args.push(format!(r#""error":{}"#, Json(&failure.message)));
        if let Some(brick) = failure.brick {
            args.push(format!(r#""failed":{}"#, Json(brick.name)));
        }
    }
    if let Some(info) = event.kind.brick() {
        let place = format!("{}:{}", info.file, info.line);
        args.push(format!(
            r#""function":{},"source":{}"#,
            Json(info.function),
            Json(&place)
        ));
    }
    args.join(",")
}

/// The objects of an array, one a line.
struct List<'o, W> {
    out: &'o mut W,
    first: bool,
}

impl<W: Write> List<'_, W> {
    /// `members` go between braces.
    fn item(&mut self, members: &str) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.first) {
            ""
        } else {
            ","
        };
        write!(self.out, "{comma}\n{{{members}}}")
    }
}
