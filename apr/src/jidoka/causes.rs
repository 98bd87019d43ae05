//! What may have made a number NaN or infinite, from what is seen around it.

use super::Found;
use crate::gguf::{Gguf, Tensor};
use crate::model::Node;
use brick_runtime::TensorStats;

/// Above it a square is infinite: √(largest f32).
const SQUARE_OVERFLOWS: f32 = 1.8e19;
/// Weights of trained models are below 100; beyond this one, products leave f32 within a few layers.
const HUGE_WEIGHT: f32 = 1e4;
/// Growth of the residual stream over all layers that is told.
const GROWTH: f32 = 1000.0;

/// The likely causes, the most certain first.
pub(super) fn of(found: &Found, gguf: &Gguf<'_>) -> Vec<String> {
    let mut causes = Vec::new();
    let mut huge = Vec::new();
    for tensor in weights(found, gguf) {
        match look(&tensor) {
            Weight::Bad(cause) => causes.push(cause),
            Weight::Huge(cause) => huge.push(cause),
            Weight::Ordinary => {}
        }
    }
    causes.extend(huge);
    let largest = found
        .inputs
        .iter()
        .map(|(.., s)| magnitude(s))
        .fold(0.0, f32::max);
    if largest > SQUARE_OVERFLOWS {
        causes.push(format!(
            "overflow: the inputs reach {largest:.1e}, whose products pass f32's 3.4e38"
        ));
    }
    if let (Some(&first), Some(&last)) = (found.stream.first(), found.stream.last())
        && last > GROWTH * first
    {
        let layers = found.stream.len() - 1;
        causes.push(format!(
            "the residual stream grew from {first:.3e} to {last:.3e} over {layers} layers"
        ));
    }
    if causes.is_empty() {
        causes.push(
            "inputs and weights are finite and of ordinary size: a fault of the kernel itself"
                .into(),
        );
    }
    causes
}

fn magnitude(stats: &TensorStats) -> f32 {
    stats.max.max(-stats.min)
}

enum Weight {
    Bad(String),
    Huge(String),
    Ordinary,
}

fn look(tensor: &Tensor<'_>) -> Weight {
    // What no kernel can read was not computed with.
    let Ok(matrix) = tensor.matrix() else {
        return Weight::Ordinary;
    };
    let name = tensor.name();
    if let Some(bad) = matrix.find_bad_scale() {
        let (row, block) = (bad.row, bad.block);
        return Weight::Bad(match tensor.ggml_type().block_elems() {
            1 => {
                format!("weight {name} holds a NaN or infinite value in row {row}, element {block}")
            }
            _ => format!("weight {name} has a NaN or infinite scale in row {row}, block {block}"),
        });
    }
    let mut values = vec![0.0; matrix.cols()];
    let mut largest = 0.0f32;
    for row in 0..matrix.rows() {
        if matrix.dequantise_row(row, &mut values).is_err() {
            break;
        }
        largest = values.iter().fold(largest, |m, v| m.max(v.abs()));
    }
    match largest > HUGE_WEIGHT {
        true => Weight::Huge(format!("weight {name} reaches {largest:.1e}")),
        false => Weight::Ordinary,
    }
}

/// The weights between a tensor's inputs and itself.
fn weights<'a>(found: &Found, gguf: &Gguf<'a>) -> Vec<Tensor<'a>> {
    let parts: &[&str] = match found.node {
        Node::Embedding => &["token_embd.weight"],
        Node::AttnNorm => &["attn_norm.weight"],
        Node::Query => &["attn_q.weight", "attn_q.bias", "attn_q_norm.weight"],
        Node::Key => &["attn_k.weight", "attn_k.bias", "attn_k_norm.weight"],
        Node::Value => &["attn_v.weight", "attn_v.bias"],
        Node::AttnOut => &["attn_output.weight"],
        Node::AttnPostNorm => &["post_attention_norm.weight"],
        Node::FfnNorm => &["ffn_norm.weight"],
        Node::FfnInner => &["ffn_gate.weight", "ffn_up.weight"],
        Node::FfnOut => &["ffn_down.weight"],
        Node::FfnPostNorm => &["post_ffw_norm.weight"],
        Node::FinalNorm => &["output_norm.weight"],
        Node::Logits if gguf.tensor("output.weight").is_none() => &["token_embd.weight"],
        Node::Logits => &["output.weight"],
        _ => &[],
    };
    let name = |part: &&str| match found.layer {
        Some(layer) => format!("blk.{layer}.{part}"),
        None => (*part).to_owned(),
    };
    parts
        .iter()
        .filter_map(|part| gguf.tensor(&name(part)))
        .collect()
}
