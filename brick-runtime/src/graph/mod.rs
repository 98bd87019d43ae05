//! What had to come before what: the critical path of a run, and where it waits.
//!
//! A graph is made of a [`Timeline`](crate::timeline::Timeline), or by hand of what a device says.
//! Each node has its own time, without that of what it contains; nothing is counted twice.
//!
//! # What a timeline tells
//!
//! Of a run on the CPU there are kernels, bricks, layers and scopes, what contains what and what came
//! after what on a thread. Where a call hands work to other threads, it launches it, and a sync follows
//! the call if it has waited for that: how long is in the call's own time, for nothing tells the waiting from
//! the call's own share of the work. Transfers are for devices: on the CPU a copy is a kernel like
//! any other, and no memory is moved that the program does not move itself.
//!
//! ```
//! use brick_runtime::graph::{EdgeKind, ExecutionGraph, Node, NodeKind};
//!
//! let mut graph = ExecutionGraph::new();
//! let copy = graph.add(Node::new(NodeKind::Transfer { bytes: 4096 }, "weights", 300));
//! let work = NodeKind::Kernel { flops: Some(8192), bytes: Some(4096) };
//! let gemv = graph.add(Node::new(work, "gemv", 500));
//! let norm = graph.add(Node::new(work, "norm", 100));
//! graph.connect(copy, gemv, EdgeKind::Depends);
//! graph.connect(gemv, norm, EdgeKind::Depends);
//! let schedule = graph.schedule()?;
//! assert_eq!((schedule.length_ns, schedule.critical), (900, vec![copy, gemv, norm]));
//! assert_eq!(graph.node(gemv).kind.arithmetic_intensity(), Some(2.0));
//! # Ok::<(), brick_runtime::graph::GraphError>(())
//! ```

mod build;
mod gaps;
mod roofline;
mod schedule;
mod write;

pub use self::gaps::{Cause, Gap};
pub use self::roofline::{Bound, Ceilings, Roofline};
pub use self::schedule::{GraphError, Schedule};

/// A node of an [`ExecutionGraph`], of that graph only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

/// What ran, and what had to come before what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutionGraph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    ceilings: Option<Ceilings>,
}

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub kind: NodeKind,
    /// What it is called.
    pub label: String,
    /// Nanoseconds that are its own, not of what it contains.
    pub own_ns: u64,
    /// When it was, in nanoseconds, if that is known: start and end.
    pub span_ns: Option<(u64, u64)>,
    /// What it ran on: a thread, a stream. Things of one lane run one after the other.
    pub lane: usize,
}

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeKind {
    /// Computes: a brick that calls no other, or a kernel of a device.
    Kernel {
        /// Floating-point operations, if declared.
        flops: Option<u64>,
        /// Bytes moved, if declared.
        bytes: Option<u64>,
    },
    /// Moves data between memories.
    Transfer {
        /// How much.
        bytes: u64,
    },
    /// Waits for something.
    Sync,
    /// A layer of the model.
    Layer(u64),
    /// A brick that calls others.
    Brick,
    /// Any other scope: a token, a span, the check of a call's results.
    Scope,
}

impl NodeKind {
    /// `"kernel"`, `"transfer"`, ….
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            NodeKind::Kernel { .. } => "kernel",
            NodeKind::Transfer { .. } => "transfer",
            NodeKind::Sync => "sync",
            NodeKind::Layer(_) => "layer",
            NodeKind::Brick => "brick",
            NodeKind::Scope => "scope",
        }
    }

    /// Declared operations per declared byte of a kernel; `None` where either is not declared.
    #[must_use]
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        match *self {
            NodeKind::Kernel {
                flops: Some(flops),
                bytes: Some(bytes),
            } if bytes > 0 => Some(flops as f64 / bytes as f64),
            _ => None,
        }
    }

    /// Whether it does or awaits something itself, rather than holding what does.
    fn is_activity(&self) -> bool {
        matches!(
            self,
            NodeKind::Kernel { .. } | NodeKind::Transfer { .. } | NodeKind::Sync
        )
    }
}

impl Node {
    /// Something of lane 0, of which is not known when it was.
    #[must_use]
    pub fn new(kind: NodeKind, label: impl Into<String>, own_ns: u64) -> Node {
        Node {
            kind,
            label: label.into(),
            own_ns,
            span_ns: None,
            lane: 0,
        }
    }

    /// It ran on this lane.
    #[must_use]
    pub fn on(mut self, lane: usize) -> Node {
        self.lane = lane;
        self
    }

    /// It ran from `start` to `end`, in nanoseconds.
    #[must_use]
    pub fn at(mut self, start: u64, end: u64) -> Node {
        self.span_ns = Some((start, end.max(start)));
        self
    }
}

/// What one node is to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeKind {
    /// The second is part of the first: it begins after its begin, and ends before its end.
    Contains,
    /// The first has started the second elsewhere: that begins after its begin, and may go on after
    /// its end.
    Launches,
    /// The second begins after the first's end.
    Depends,
    /// The second takes data that the first has made or moved: it begins after the first's end.
    Transfers,
}

impl EdgeKind {
    /// `"contains"`, `"launches"`, ….
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            EdgeKind::Contains => "contains",
            EdgeKind::Launches => "launches",
            EdgeKind::Depends => "depends",
            EdgeKind::Transfers => "transfers",
        }
    }
}

/// An edge of an [`ExecutionGraph`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The one that comes first.
    pub from: NodeId,
    /// The other.
    pub to: NodeId,
    /// What they are to each other.
    pub kind: EdgeKind,
}

impl ExecutionGraph {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> ExecutionGraph {
        ExecutionGraph::default()
    }

    /// Adds a node.
    pub fn add(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() - 1)
    }

    /// Says what `from` is to `to`. That this closes a circle is told by [`schedule`](Self::schedule).
    ///
    /// # Panics
    /// If a node is of another graph that has more of them.
    pub fn connect(&mut self, from: NodeId, to: NodeId, kind: EdgeKind) {
        let here = |id: NodeId| id.0 < self.nodes.len();
        assert!(here(from) && here(to), "a node of another graph");
        self.edges.push(Edge { from, to, kind });
    }

    /// The nodes, in the order in which they were added.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        let id = |(index, node)| (NodeId(index), node);
        self.nodes.iter().enumerate().map(id)
    }

    /// The node called `id`.
    ///
    /// # Panics
    /// If it is of another graph that has more of them.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    /// The edges, in the order in which they were added.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// What contains each node: the last that was said to.
    fn containers(&self) -> Vec<Option<usize>> {
        let mut containers = vec![None; self.nodes.len()];
        for edge in self
            .edges
            .iter()
            .filter(|edge| edge.kind == EdgeKind::Contains)
        {
            containers[edge.to.0] = Some(edge.from.0);
        }
        containers
    }
}
