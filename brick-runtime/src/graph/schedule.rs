//! The critical path and the slack, by the critical path method.
//!
//! Each node is two points, its begin and its end. Its own time lies before its end: what it contains
//! and what it does itself are one after the other, in whichever order. So a chain through a node
//! goes through what it contains too, and own times are counted once.

use std::fmt;

use super::{EdgeKind, ExecutionGraph, NodeId};

/// When everything could have been at the earliest.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The longest chain: less than that it can't take, on however many lanes.
    pub length_ns: u64,
    /// The nodes of such a chain that have a time of their own, in the order in which they end.
    pub critical: Vec<NodeId>,
    /// Per node, in their order: by how much it could end later (or take longer) without the whole
    /// taking longer, in nanoseconds.
    pub slack_ns: Vec<u64>,
}

/// Why a graph has no schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// These come before each other, in this order and again from the start.
    Cycle(Vec<String>),
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GraphError::Cycle(labels) = self;
        let again = labels.first().map_or("", String::as_str);
        write!(f, "a cycle: {} before {again}", labels.join(" before "))
    }
}

impl std::error::Error for GraphError {}

/// The points of a graph: `2 * node` is a node's begin, `2 * node + 1` its end.
struct Points {
    after: Vec<Vec<usize>>,
    before: Vec<Vec<usize>>,
}

const fn begin(node: usize) -> usize {
    2 * node
}

const fn end(node: usize) -> usize {
    2 * node + 1
}

impl Points {
    fn of(graph: &ExecutionGraph) -> Points {
        let count = 2 * graph.nodes.len();
        let mut points = Points {
            after: vec![Vec::new(); count],
            before: vec![Vec::new(); count],
        };
        for node in 0..graph.nodes.len() {
            points.connect(begin(node), end(node));
        }
        for edge in &graph.edges {
            let (from, to) = (edge.from.0, edge.to.0);
            match edge.kind {
                EdgeKind::Contains => {
                    points.connect(begin(from), begin(to));
                    points.connect(end(to), end(from));
                }
                EdgeKind::Launches => points.connect(begin(from), begin(to)),
                EdgeKind::Depends | EdgeKind::Transfers => points.connect(end(from), begin(to)),
            }
        }
        points
    }

    fn connect(&mut self, from: usize, to: usize) {
        self.after[from].push(to);
        self.before[to].push(from);
    }

    /// All points, each after all that come before it (Kahn, 1962); `Err` with those that come before
    /// themselves, or after such.
    fn in_order(&self) -> Result<Vec<usize>, Vec<bool>> {
        let mut missing: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut order: Vec<usize> = (0..missing.len()).filter(|&p| missing[p] == 0).collect();
        let mut next = 0;
        while let Some(&point) = order.get(next) {
            next += 1;
            for &after in &self.after[point] {
                missing[after] -= 1;
                if missing[after] == 0 {
                    order.push(after);
                }
            }
        }
        match order.len() == missing.len() {
            true => Ok(order),
            false => Err(missing.into_iter().map(|missing| missing > 0).collect()),
        }
    }

    /// The nodes of a cycle among the points that are `stuck`: each of them has one before it.
    fn cycle(&self, stuck: &[bool]) -> Vec<usize> {
        let mut seen = vec![usize::MAX; stuck.len()];
        let mut walk = Vec::new();
        let mut at = stuck.iter().position(|&stuck| stuck).unwrap_or(0);
        while seen[at] == usize::MAX {
            seen[at] = walk.len();
            walk.push(at);
            match self.before[at].iter().find(|&&before| stuck[before]) {
                Some(&before) => at = before,
                None => return walk,
            }
        }
        let mut nodes: Vec<usize> = walk[seen[at]..]
            .iter()
            .rev()
            .map(|point| point / 2)
            .collect();
        nodes.dedup();
        if nodes.len() > 1 && nodes.first() == nodes.last() {
            nodes.pop();
        }
        nodes
    }
}

impl ExecutionGraph {
    /// The critical path, and how much slack there is besides.
    ///
    /// # Errors
    /// If something would have to come before itself.
    pub fn schedule(&self) -> Result<Schedule, GraphError> {
        let points = Points::of(self);
        let order = points.in_order().map_err(|stuck| {
            let cycle = points.cycle(&stuck).into_iter();
            GraphError::Cycle(cycle.map(|node| self.nodes[node].label.clone()).collect())
        })?;
        let weight = |point: usize| {
            if point % 2 == 1 {
                self.nodes[point / 2].own_ns
            } else {
                0
            }
        };

        let mut earliest = vec![0u64; order.len()];
        for &point in &order {
            let begin = points.before[point].iter().map(|&b| earliest[b]).max();
            earliest[point] = begin.unwrap_or(0).saturating_add(weight(point));
        }
        let length_ns = earliest.iter().copied().max().unwrap_or(0);
        let mut latest = vec![length_ns; order.len()];
        for &point in order.iter().rev() {
            let then = |&after: &usize| latest[after].saturating_sub(weight(after));
            if let Some(limit) = points.after[point].iter().map(then).min() {
                latest[point] = limit;
            }
        }
        let slack = |node| latest[end(node)] - earliest[end(node)];
        Ok(Schedule {
            length_ns,
            critical: self.critical(&points, &earliest, length_ns),
            slack_ns: (0..self.nodes.len()).map(slack).collect(),
        })
    }

    /// From the point that is last, always to one before that is as late as can be.
    fn critical(&self, points: &Points, earliest: &[u64], length_ns: u64) -> Vec<NodeId> {
        let mut chain = Vec::new();
        let mut at = (0..earliest.len()).find(|&point| earliest[point] == length_ns);
        while let Some(point) = at {
            if point % 2 == 1 && self.nodes[point / 2].own_ns > 0 {
                chain.push(NodeId(point / 2));
            }
            let before = points.before[point].iter().copied();
            at = before.max_by_key(|&before| earliest[before]);
        }
        chain.reverse();
        chain
    }
}
