//! Where a lane had nothing to do, and why.

use std::collections::BTreeMap;

use super::{EdgeKind, ExecutionGraph, NodeId};

/// Between two activities of one lane, nothing ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The lane.
    pub lane: usize,
    /// The activity that had ended.
    pub before: NodeId,
    /// The next.
    pub after: NodeId,
    /// In nanoseconds.
    pub start_ns: u64,
    /// In nanoseconds.
    pub end_ns: u64,
    /// Why.
    pub cause: Cause,
}

/// Why a lane had nothing to do: what the graph knows, and no guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// What comes next had to wait for this one of another lane, which ended (or, if it launches it,
    /// began) in the gap.
    Waits(NodeId),
    /// Code of this one ran that is no kernel: the innermost that holds all of the gap.
    Inside(NodeId),
    /// Nothing is known: no recorded code ran.
    Unrecorded,
}

impl ExecutionGraph {
    /// The gaps of at least `shortest_ns` between kernels, transfers and syncs of each lane, by
    /// lane and time. Nodes of which is not known when they were have none.
    #[must_use]
    pub fn gaps(&self, shortest_ns: u64) -> Vec<Gap> {
        let mut lanes: BTreeMap<usize, Vec<(u64, u64, usize)>> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some((start, end)) = node.span_ns.filter(|_| node.kind.is_activity()) {
                lanes
                    .entry(node.lane)
                    .or_default()
                    .push((start, end, index));
            }
        }
        let containers = self.containers();
        let mut incoming: Vec<Vec<(usize, EdgeKind)>> = vec![Vec::new(); self.nodes.len()];
        for edge in &self.edges {
            incoming[edge.to.0].push((edge.from.0, edge.kind));
        }
        let mut gaps = Vec::new();
        for (lane, mut activities) in lanes {
            activities.sort_unstable();
            // The activity that ended last so far.
            let mut last: Option<(u64, usize)> = None;
            for (start, end, index) in activities {
                if let Some((ended, before)) = last
                    && start >= ended.saturating_add(shortest_ns.max(1))
                {
                    let waits = self.awaited(index, (ended, start), &containers, &incoming);
                    let inside = || self.holder(index, (ended, start), &containers);
                    gaps.push(Gap {
                        lane,
                        before: NodeId(before),
                        after: NodeId(index),
                        start_ns: ended,
                        end_ns: start,
                        cause: waits.or_else(inside).unwrap_or(Cause::Unrecorded),
                    });
                }
                last = last.max(Some((end, index)));
            }
        }
        gaps
    }

    /// What `node`, or something around it that began in the gap, had to wait for: the last of it.
    fn awaited(
        &self,
        node: usize,
        (start, end): (u64, u64),
        containers: &[Option<usize>],
        incoming: &[Vec<(usize, EdgeKind)>],
    ) -> Option<Cause> {
        let began_inside = |&node: &usize| {
            let span = self.nodes[node].span_ns;
            span.is_some_and(|(began, _)| began > start)
        };
        let lane = self.nodes[node].lane;
        let waiting = ancestry(node, containers).take_while(began_inside);
        let awaited = waiting
            .flat_map(|node| incoming[node].iter())
            .filter_map(|&(from, kind)| {
                let (began, ended) = self.nodes[from].span_ns?;
                let released = match kind {
                    EdgeKind::Contains => return None,
                    EdgeKind::Launches => began,
                    EdgeKind::Depends | EdgeKind::Transfers => ended,
                };
                let here = self.nodes[from].lane != lane && start < released && released <= end;
                here.then_some((released, from))
            });
        awaited.max().map(|(_, from)| Cause::Waits(NodeId(from)))
    }

    /// The innermost thing around `node` that holds all of the gap.
    fn holder(
        &self,
        node: usize,
        (start, end): (u64, u64),
        containers: &[Option<usize>],
    ) -> Option<Cause> {
        let holds = |&around: &usize| {
            let span = self.nodes[around].span_ns;
            span.is_some_and(|(began, ended)| began <= start && end <= ended)
        };
        let mut around = ancestry(node, containers).skip(1);
        around
            .find(holds)
            .map(|around| Cause::Inside(NodeId(around)))
    }
}

/// A node and what is around it, from the inside out; at most as many as there are, should they
/// contain each other.
fn ancestry(node: usize, containers: &[Option<usize>]) -> impl Iterator<Item = usize> {
    let outward = std::iter::successors(Some(node), |&node| containers[node]);
    outward.take(containers.len())
}
