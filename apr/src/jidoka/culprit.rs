//! Which brick made a bad number, where several work between two tensors that are looked at.

use crate::model::Node;
use brick_runtime::contract::{Fault, Violation};
use std::fmt;

/// The brick that made a bad number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Culprit {
    /// This one.
    Known(&'static str),
    /// One of these, and why it is not known which.
    OneOf(&'static [&'static str], &'static str),
}

const UNCHECKED: &str = "which one is not known, as none of their own checks spoke";
const KEYS_TOO: &str = "which one is not known, as the keys went bad there too";

/// That a kernel broke a contract.
#[derive(Clone, Debug)]
pub(super) struct Said {
    brick: &'static str,
    /// The parameter that it is about, if it is about one.
    tensor: Option<String>,
}

impl From<&Violation> for Said {
    fn from(violation: &Violation) -> Self {
        Self {
            brick: violation.brick.name,
            tensor: match &violation.fault {
                Fault::Number { tensor, .. } => Some(tensor.clone()),
                _ => None,
            },
        }
    }
}

impl Culprit {
    /// Of the bricks before `node` the one at fault, `said` being the contracts that were found broken
    /// since the inputs of `node` were good, in order; `post_norm` says whether what is added to the
    /// residual stream goes through a norm of its own.
    pub(super) fn of(node: Node, post_norm: bool, said: &[Said]) -> Self {
        let bricks = bricks(node, post_norm);
        if let [brick] = bricks {
            return Self::Known(brick);
        }
        // The projection has three outputs, and tells of the first bad one; the others have one.
        let about = |said: &&Said| {
            let other = said.brick == QKV && said.tensor.as_deref() != Some(node.name());
            bricks.contains(&said.brick) && !other
        };
        let Some(first) = said.iter().find(about) else {
            return Self::OneOf(bricks, UNCHECKED);
        };
        // Both work on queries, then on keys. A norm that spoke once spoke of the queries, unless
        // the keys are bad as well and the queries became so later.
        let count = |name| said.iter().filter(|said| said.brick == name).count();
        if node == Node::Query && first.brick == NORM && (count(NORM), count(ROPE)) == (1, 2) {
            return Self::OneOf(&[NORM, ROPE], KEYS_TOO);
        }
        Self::Known(first.brick)
    }

    /// The one, if it is known.
    pub(super) fn known(self) -> Option<&'static str> {
        match self {
            Self::Known(brick) => Some(brick),
            Self::OneOf(..) => None,
        }
    }
}

impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(brick) => f.write_str(brick),
            Self::OneOf(bricks, why) => write!(f, "{} ({why})", bricks.join(" or ")),
        }
    }
}

const QKV: &str = "QkvProjection";
const NORM: &str = "HeadNorm";
const ROPE: &str = "RopeEmbedding";

/// The bricks between a tensor's inputs and itself, in the order of their work.
fn bricks(node: Node, post_norm: bool) -> &'static [&'static str] {
    match node {
        Node::Embedding => &["Embedding"],
        Node::Query | Node::Key => &[QKV, NORM, ROPE],
        Node::Value => &[QKV],
        Node::AttnHeads => &["AttentionScore"],
        Node::AttnOut => &["OutputProjection"],
        Node::AttnPostNorm | Node::AttnResidual | Node::FfnNorm => &["ResidualNorm"],
        Node::FfnPostNorm => &["PostNormResidual"],
        Node::LayerOutput if post_norm => &["PostNormResidual"],
        Node::LayerOutput => &["ResidualAdd"],
        Node::FfnInner => &["GateUpProjection"],
        Node::FfnOut => &["DownProjection"],
        Node::Logits => &["LmHead", "LogitSoftcap"],
        _ => &["RmsNorm"],
    }
}

/// Whether what the kernels say after `node` is seen is of the next tensor. Queries and keys are shown when
/// all three are made, and the last norm when the logits are there: what makes the next ones has spoken.
pub(super) fn is_last_of_its_step(node: Node) -> bool {
    !matches!(node, Node::Query | Node::Key | Node::FinalNorm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brick_kernels::BrickId;

    fn broken(brick: BrickId, tensor: &str) -> Said {
        Said {
            brick: brick.info().name,
            tensor: Some(tensor.to_owned()),
        }
    }

    /// The order of the forward pass: projection, norm of q, norm of k, rotation of q, of k.
    #[test]
    fn the_first_that_spoke_of_the_tensor_is_at_fault() {
        use BrickId::{HeadNorm, LmHead, LogitSoftcap, QkvProjection, RopeEmbedding};
        let [q, k] = ["q", "k"].map(|tensor| broken(QkvProjection, tensor));
        let (norm, rope) = (broken(HeadNorm, "x"), broken(RopeEmbedding, "x"));
        let of = |node, said: &[&Said]| {
            let said: Vec<_> = said.iter().map(|&said| said.clone()).collect();
            Culprit::of(node, false, &said).to_string()
        };
        assert_eq!(of(Node::Query, &[&q, &norm, &rope]), "QkvProjection");
        assert_eq!(of(Node::Query, &[&norm, &rope]), "HeadNorm");
        assert_eq!(of(Node::Query, &[&rope]), "RopeEmbedding");
        assert_eq!(of(Node::Query, &[&norm, &norm, &rope, &rope]), "HeadNorm");
        // The keys were bad before; of the queries nothing is said until they are rotated.
        assert_eq!(of(Node::Query, &[&k, &rope, &rope]), "RopeEmbedding");
        assert_eq!(
            of(Node::Query, &[&k, &norm, &rope, &rope]),
            "HeadNorm or RopeEmbedding (which one is not known, as the keys went bad there too)"
        );
        assert_eq!(of(Node::Key, &[&k, &norm, &rope]), "QkvProjection");
        assert_eq!(of(Node::Key, &[&norm, &rope]), "HeadNorm");
        assert_eq!(
            of(Node::Logits, &[&broken(LogitSoftcap, "x")]),
            "LogitSoftcap"
        );
        let head = [&broken(LmHead, "logits"), &broken(LogitSoftcap, "x")];
        assert_eq!(of(Node::Logits, &head), "LmHead");
        assert_eq!(
            of(Node::Query, &[]),
            "QkvProjection or HeadNorm or RopeEmbedding (which one is not known, as none of their own checks spoke)"
        );
        assert_eq!(of(Node::Value, &[]), "QkvProjection");
        assert_eq!(of(Node::LayerOutput, &[]), "ResidualAdd");
        let normed = Culprit::of(Node::LayerOutput, true, &[]);
        assert_eq!(normed.to_string(), "PostNormResidual");
    }

    /// As the registry has them.
    #[test]
    fn every_brick_named_is_one() {
        let nodes = Node::ALL.into_iter();
        for brick in nodes.flat_map(|node| [bricks(node, false), bricks(node, true)].concat()) {
            assert!(brick.parse::<BrickId>().is_ok(), "{brick}");
        }
    }
}
