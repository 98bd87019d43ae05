//! Where the same brick is called from: events that are in the same things are one node.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Write};

use super::{EventKind, Timeline};
use crate::registry::BrickInfo;

/// The calls of a [`Timeline`] by their path: a kernel that attention calls is another one than
/// the same kernel in the feed-forward network. Layers and tokens are told apart by no number.
///
/// Times are summed over all threads. What a pool's thread did stands at the root.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    /// A parent comes before its children; siblings are in the order in which they first began.
    pub nodes: Vec<PathNode>,
}

/// All calls at one path.
#[derive(Clone, Debug, PartialEq)]
pub struct PathNode {
    /// The innermost name of the path.
    pub name: String,
    /// The brick, unless it is a scope.
    pub brick: Option<&'static BrickInfo>,
    /// Index of what it is in; less than its own.
    pub parent: Option<usize>,
    /// How many things it is in.
    pub depth: usize,
    /// Calls, polls or scopes.
    pub count: u64,
    /// Nanoseconds, children included.
    pub total_ns: u64,
    /// Nanoseconds that are in none of its children.
    pub self_ns: u64,
}

impl Timeline {
    /// The calls by their path.
    #[must_use]
    pub fn paths(&self) -> Paths {
        let own = self.self_ns();
        let mut nodes: Vec<PathNode> = Vec::new();
        let mut known: HashMap<(Option<usize>, Frame), usize> = HashMap::new();
        let mut node_of: Vec<usize> = Vec::with_capacity(self.events.len());
        for (event, self_ns) in self.events.iter().zip(own) {
            let parent = event.parent.map(|parent| node_of[parent]);
            let node = *known
                .entry((parent, frame(&event.kind)))
                .or_insert(nodes.len());
            if node == nodes.len() {
                nodes.push(PathNode {
                    name: event.kind.to_string(),
                    brick: event.kind.brick(),
                    parent,
                    depth: parent.map_or(0, |parent| nodes[parent].depth + 1),
                    count: 0,
                    total_ns: 0,
                    self_ns: 0,
                });
            }
            nodes[node].count += 1;
            nodes[node].total_ns += event.duration_ns();
            nodes[node].self_ns += self_ns;
            node_of.push(node);
        }
        Paths { nodes }.depth_first()
    }
}

/// What makes two events the same place: their name, and of which brick.
type Frame = (String, Option<u64>);

fn frame(kind: &EventKind) -> Frame {
    (kind.to_string(), kind.brick().map(|info| info.wire_id))
}

impl Paths {
    /// Puts every node right after its parent and what is in its elder siblings.
    fn depth_first(self) -> Paths {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let mut pending = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            match node.parent {
                Some(parent) => children[parent].push(index),
                None => pending.push((index, None)),
            }
        }
        pending.reverse();
        let mut nodes: Vec<PathNode> = Vec::with_capacity(self.nodes.len());
        while let Some((index, parent)) = pending.pop() {
            let now = nodes.len();
            nodes.push(PathNode {
                parent,
                ..self.nodes[index].clone()
            });
            pending.extend(
                children[index]
                    .iter()
                    .rev()
                    .map(|&child| (child, Some(now))),
            );
        }
        Paths { nodes }
    }

    /// What is in the nodes called `name`, as if nothing were around them.
    #[must_use]
    pub fn inside(&self, name: &str) -> Paths {
        let mut now_at: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut nodes: Vec<PathNode> = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            let parent = node.parent.and_then(|parent| now_at[parent]);
            if parent.is_some() || node.name == name {
                now_at[index] = Some(nodes.len());
                let depth = parent.map_or(0, |parent| nodes[parent].depth + 1);
                nodes.push(PathNode {
                    parent,
                    depth,
                    ..node.clone()
                });
            }
        }
        Paths { nodes }
    }

    /// The names from the outermost to this node's.
    #[must_use]
    pub fn names(&self, node: usize) -> Vec<&str> {
        let parent = |node: &usize| self.nodes[*node].parent;
        let mut names: Vec<&str> = std::iter::successors(Some(node), parent)
            .map(|node| self.nodes[node].name.as_str())
            .collect();
        names.reverse();
        names
    }

    /// Nanoseconds of all nodes together.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.nodes.iter().map(|node| node.self_ns).sum()
    }

    /// Folded stacks: `a;b;c` and the nanoseconds spent in `c` itself, a line for each path that
    /// has any. What flamegraph.pl, inferno and speedscope read.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_folded(&self, out: &mut impl Write) -> io::Result<()> {
        for (index, node) in self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.self_ns > 0)
        {
            let names = self
                .names(index)
                .into_iter()
                .map(folded)
                .collect::<Vec<_>>();
            writeln!(out, "{} {}", names.join(";"), node.self_ns)?;
        }
        Ok(())
    }
}

/// A name without what separates names and lines.
fn folded(name: &str) -> String {
    name.replace(';', ",")
        .replace(|c: char| c.is_control(), " ")
}

/// A table: paths by indentation, calls, times, and the share of all self times.
impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |node: &PathNode| 2 * node.depth + node.name.chars().count();
        let width = self.nodes.iter().map(label).max().unwrap_or(0).max(4);
        let all = self.total_ns().max(1) as f64;
        writeln!(
            f,
            "{:width$}  {:>9}  {:>12}  {:>12}  {:>6}",
            "path", "calls", "total ms", "self ms", "self %"
        )?;
        for node in &self.nodes {
            let indent = 2 * node.depth;
            writeln!(
                f,
                "{:indent$}{:rest$}  {:>9}  {:>12.3}  {:>12.3}  {:>6.1}",
                "",
                node.name,
                node.count,
                node.total_ns as f64 / 1e6,
                node.self_ns as f64 / 1e6,
                100.0 * node.self_ns as f64 / all,
                rest = width - indent,
            )?;
        }
        Ok(())
    }
}
