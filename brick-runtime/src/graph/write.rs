//! A graph for Graphviz, and for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::{Cause, EdgeKind, ExecutionGraph, GraphError, NodeId, NodeKind, Roofline, Schedule};

impl ExecutionGraph {
    /// The graph in the DOT language (<https://graphviz.org/doc/info/lang.html>): the critical path
    /// in red. Of each node also `own_ns` and `slack_ns`, of each edge its kind; of kernels
    /// [under](Self::under) a roof also `roof` and `percent_of_roof`.
    ///
    /// # Errors
    /// Those of `out`; a cycle is an error of kind [`InvalidData`](io::ErrorKind::InvalidData).
    pub fn write_dot(&self, out: &mut impl Write) -> io::Result<()> {
        let schedule = self.schedule().map_err(invalid)?;
        let on_path = self.on_path(&schedule);
        writeln!(out, "digraph execution {{")?;
        writeln!(
            out,
            "  node [shape=box, fontname=\"monospace\", style=filled, fillcolor=white];"
        )?;
        for (id, node) in self.nodes() {
            let color = if on_path[id.0] { "red" } else { "black" };
            write!(
                out,
                "  n{} [label={}, kind={}, own_ns={}, slack_ns={}, color={color}",
                id.0,
                Quoted(&self.dot_label(id)),
                node.kind.name(),
                node.own_ns,
                schedule.slack_ns[id.0],
            )?;
            if let Some(roofline) = self.known_roofline(id) {
                let percent = percent_of_roof(&roofline);
                let roof = roofline.bound.name();
                write!(out, ", roof={roof}, percent_of_roof={percent:.3}")?;
            }
            writeln!(out, "];")?;
        }
        for edge in &self.edges {
            let style = match edge.kind {
                EdgeKind::Contains => "dotted",
                EdgeKind::Launches => "dashed",
                EdgeKind::Depends => "solid",
                EdgeKind::Transfers => "bold",
            };
            let (from, to, kind) = (edge.from.0, edge.to.0, edge.kind.name());
            writeln!(out, "  n{from} -> n{to} [kind={kind}, style={style}];")?;
        }
        writeln!(out, "}}")
    }

    /// The graph as text: sums, the critical path by name, the gaps by cause, and a tree of what
    /// contains what with times, slack and arithmetic intensity; `*` marks the critical path. Of kernels
    /// [under](Self::under) a roof also how much of it they reached.
    ///
    /// # Errors
    /// Those of `out`; a cycle is an error of kind [`InvalidData`](io::ErrorKind::InvalidData).
    pub fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let schedule = self.schedule().map_err(invalid)?;
        let own: u64 = self.nodes.iter().map(|node| node.own_ns).sum();
        writeln!(
            out,
            "{} nodes, {} edges",
            self.nodes.len(),
            self.edges.len()
        )?;
        writeln!(out, "own times together {} (measured)", Us(own))?;
        writeln!(
            out,
            "critical path {} (derived from own times and edges)",
            Us(schedule.length_ns)
        )?;
        if let Some(ceilings) = self.ceilings {
            writeln!(out, "ceilings: {ceilings} (measured)")?;
        }
        let on_it = schedule
            .critical
            .iter()
            .map(|&id| (self.nodes[id.0].label.clone(), self.nodes[id.0].own_ns));
        write_sums(out, "on the critical path", on_it)?;
        let gaps = self.gaps(1).into_iter();
        let gaps = gaps.map(|gap| (self.told(gap.cause), gap.end_ns - gap.start_ns));
        write_sums(out, "nothing computed on a lane", gaps)?;
        self.write_tree(&schedule, out)
    }

    /// Of a kernel of which everything is known, where the ceilings are.
    fn known_roofline(&self, id: NodeId) -> Option<Roofline> {
        self.roofline(id, self.ceilings?).ok()
    }

    fn dot_label(&self, id: NodeId) -> String {
        let node = self.node(id);
        let mut label = format!("{}\n{}", node.label, Us(node.own_ns));
        if let NodeKind::Transfer { bytes } = node.kind {
            label += &format!("\n{bytes} bytes");
        }
        if let Some(intensity) = node.kind.arithmetic_intensity() {
            label += &format!("\n{intensity:.3} flop/byte");
        }
        if let Some(roofline) = self.known_roofline(id) {
            let (percent, roof) = (percent_of_roof(&roofline), roofline.bound.name());
            label += &format!("\n{percent:.1} % of the {roof} roof");
        }
        label
    }

    fn told(&self, cause: Cause) -> String {
        match cause {
            Cause::Waits(id) => format!("waits for {}", self.nodes[id.0].label),
            Cause::Inside(id) => format!("in {}", self.nodes[id.0].label),
            Cause::Unrecorded => "nothing recorded".into(),
        }
    }

    fn on_path(&self, schedule: &Schedule) -> Vec<bool> {
        let mut on_path = vec![false; self.nodes.len()];
        for &NodeId(node) in &schedule.critical {
            on_path[node] = true;
        }
        on_path
    }

    fn write_tree(&self, schedule: &Schedule, out: &mut impl Write) -> io::Result<()> {
        let containers = self.containers();
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut pending: Vec<(usize, usize)> = Vec::new();
        for (node, container) in containers.iter().enumerate().rev() {
            match container {
                Some(container) => children[*container].push(node),
                None => pending.push((node, 0)),
            }
        }
        let on_path = self.on_path(schedule);
        let with_roofs = self.ceilings.is_some();
        let roof = |text: &str| match with_roofs {
            true => format!("  {text:>14}"),
            false => String::new(),
        };
        writeln!(
            out,
            "\n{:>12}  {:>12}  {:>10}{}",
            "own µs",
            "slack µs",
            "flop/byte",
            roof("% of roof")
        )?;
        while let Some((index, depth)) = pending.pop() {
            let node = &self.nodes[index];
            let intensity = node.kind.arithmetic_intensity();
            let reached = self.known_roofline(NodeId(index)).map(|roofline| {
                let percent = percent_of_roof(&roofline);
                format!("{percent:.1} {:<7}", roofline.bound.name())
            });
            writeln!(
                out,
                "{:>12.3}  {:>12.3}  {:>10}{}  {}{} {} [{}]",
                node.own_ns as f64 / 1e3,
                schedule.slack_ns[index] as f64 / 1e3,
                intensity.map_or("–".into(), |intensity| format!("{intensity:.3}")),
                roof(reached.as_deref().unwrap_or("–")),
                "  ".repeat(depth),
                if on_path[index] { "*" } else { "-" },
                node.label,
                node.kind.name(),
            )?;
            pending.extend(children[index].iter().map(|&child| (child, depth + 1)));
        }
        Ok(())
    }
}

/// Sums by name, the largest first.
fn write_sums(
    out: &mut impl Write,
    title: &str,
    parts: impl Iterator<Item = (String, u64)>,
) -> io::Result<()> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (name, ns) in parts {
        let sum = sums.entry(name).or_default();
        *sum = (sum.0 + ns, sum.1 + 1);
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (ns, _))| std::cmp::Reverse(*ns));
    writeln!(out, "\n{title}:")?;
    for (name, (ns, times)) in sums {
        writeln!(out, "{:>16}  {times:>7} times  {name}", Us(ns).to_string())?;
    }
    Ok(())
}

fn percent_of_roof(roofline: &Roofline) -> f64 {
    100.0 * roofline.share().value().unwrap_or(f64::NAN)
}

fn invalid(error: GraphError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// A quoted string of DOT; a new line is its escape.
struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A backslash begins an escape in labels, and is doubled for its own sake.
        let text = self.0.replace('\\', "\\\\").replace('"', "\\\"");
        write!(f, "\"{}\"", text.replace('\n', "\\n"))
    }
}

/// Nanoseconds as microseconds.
struct Us(u64);

impl std::fmt::Display for Us {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} µs", self.0 as f64 / 1e3)
    }
}
