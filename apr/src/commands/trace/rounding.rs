//! What rounding activations to 8 bits costs, or would cost with `--precision f32`: the inputs of the
//! matrix products, and what integer dot products see of them.

use super::weights::{GroupError, worst_first};
use crate::gguf::Gguf;
use crate::model::{Node, Tensor};
use anyhow::Result;
use brick_kernels::quant::{ActivationFormat, Format, round_activations};
use brick_runtime::trace::QuantError;
use serde::Serialize;
use std::collections::BTreeMap;

/// The error of every matrix product's input, summed up over all positions.
#[derive(Debug, Default)]
pub(super) struct Roundings {
    inputs: BTreeMap<(Option<usize>, Node), Input>,
    rounded: Vec<f32>,
}

#[derive(Debug)]
struct Input {
    width: usize,
    /// In the order of [`ActivationFormat::ALL`].
    errors: [QuantError; 2],
}

/// All inputs, as they are exported.
#[derive(Debug, Serialize)]
pub(super) struct RoundingErrors {
    /// Whether the run rounded them.
    pub(super) applied: bool,
    /// The worst in what they are ranked by first.
    pub(super) inputs: Vec<InputError>,
    /// All inputs that have whole blocks of a format together.
    pub(super) by_format: Vec<GroupError>,
    /// All inputs of a layer together, each in what it is ranked by.
    pub(super) by_layer: Vec<GroupError>,
}

/// One input, as it is exported.
#[derive(Debug, Serialize)]
pub(super) struct InputError {
    pub(super) layer: Option<usize>,
    pub(super) tensor: &'static str,
    pub(super) width: usize,
    /// The weights that it is multiplied with.
    pub(super) read_by: Vec<ReadBy>,
    pub(super) formats: Vec<FormatError>,
    /// What the first of its readers takes that takes one of these formats, else Q8_0.
    pub(super) ranked_by: &'static str,
}

/// A weight matrix and what integer dot products with it take.
#[derive(Debug, Serialize)]
pub(super) struct ReadBy {
    pub(super) weights: &'static str,
    pub(super) format: &'static str,
    /// Null where they take neither of the formats here.
    pub(super) takes: Option<&'static str>,
}

/// The error in one format.
#[derive(Debug, Serialize)]
pub(super) struct FormatError {
    pub(super) format: &'static str,
    pub(super) error: Option<QuantError>,
    /// Why there is no error.
    pub(super) unavailable: Option<String>,
}

impl Roundings {
    /// Takes a tensor, if a matrix product reads it.
    pub(super) fn add(&mut self, tensor: &Tensor<'_>) -> Result<()> {
        if readers(tensor.node).is_empty() {
            return Ok(());
        }
        let width = tensor.width();
        let new = || Input {
            width,
            errors: [QuantError::default(); 2],
        };
        let key = (tensor.at.layer, tensor.node);
        let input = self.inputs.entry(key).or_insert_with(new);
        self.rounded.resize(width, 0.0);
        for (format, error) in ActivationFormat::ALL.into_iter().zip(&mut input.errors) {
            if !width.is_multiple_of(format.block_elems()) {
                continue;
            }
            for row in tensor.data.chunks_exact(width) {
                round_activations(format, row, &mut self.rounded)?;
                error.add(row, &self.rounded)?;
            }
        }
        Ok(())
    }

    /// Bytes that this may come to for a model of `n_layers`.
    pub(super) fn bytes(n_layers: usize) -> usize {
        let per_layer = Node::ALL.iter().filter(|&&node| !readers(node).is_empty());
        n_layers * per_layer.count() * (size_of::<Input>() + size_of::<(Option<usize>, Node)>())
    }

    /// What was found, ranked.
    pub(super) fn into_errors(self, gguf: &Gguf<'_>, applied: bool) -> RoundingErrors {
        let named = |((layer, node), input): ((Option<usize>, Node), Input)| {
            let read_by = read_by(gguf, layer, node);
            let taken = read_by.iter().find_map(|by| by.takes);
            InputError {
                layer,
                tensor: node.name(),
                width: input.width,
                read_by,
                formats: input.formats(),
                ranked_by: taken.unwrap_or(ActivationFormat::Q8_0.name()),
            }
        };
        let mut inputs: Vec<InputError> = self.inputs.into_iter().map(named).collect();
        inputs.sort_by(|a, b| worst_first(&a.ranked(), &b.ranked()));
        let formats = inputs.iter().flat_map(|input| &input.formats);
        let known = formats.filter_map(|format| Some((format.format.to_owned(), format.error?)));
        let layers = inputs.iter().map(|input| {
            let of = |layer| format!("layer {layer}");
            (input.layer.map_or("head".to_owned(), of), input.ranked())
        });
        RoundingErrors {
            applied,
            by_format: GroupError::ranked(known),
            by_layer: GroupError::ranked(layers),
            inputs,
        }
    }
}

impl InputError {
    /// The error in what it is ranked by; nothing compared where that does not fit its width.
    pub(super) fn ranked(&self) -> QuantError {
        let by = self.formats.iter().find(|f| f.format == self.ranked_by);
        by.and_then(|by| by.error).unwrap_or_default()
    }
}

impl Input {
    fn formats(&self) -> Vec<FormatError> {
        let each = ActivationFormat::ALL.into_iter().zip(self.errors);
        let of = |(format, error): (ActivationFormat, QuantError)| {
            let (block, width) = (format.block_elems(), self.width);
            let whole = width.is_multiple_of(block);
            FormatError {
                format: format.name(),
                error: whole.then_some(error),
                unavailable: (!whole)
                    .then(|| format!("a width of {width} is not whole blocks of {block}")),
            }
        };
        each.map(of).collect()
    }
}

/// The weights that a node is multiplied with, by the names in the file.
fn readers(node: Node) -> &'static [&'static str] {
    match node {
        Node::AttnNorm => &["attn_q.weight", "attn_k.weight", "attn_v.weight"],
        Node::AttnHeads => &["attn_output.weight"],
        Node::FfnNorm => &["ffn_gate.weight", "ffn_up.weight"],
        Node::FfnInner => &["ffn_down.weight"],
        // The first that there is: models without a head read out with the embedding.
        Node::FinalNorm => &["output.weight", "token_embd.weight"],
        _ => &[],
    }
}

fn read_by(gguf: &Gguf<'_>, layer: Option<usize>, node: Node) -> Vec<ReadBy> {
    let format_of = |weights: &'static str| -> Option<(&'static str, Format)> {
        let tensor = match layer {
            Some(layer) => gguf.tensor(&format!("blk.{layer}.{weights}")),
            None => gguf.tensor(weights),
        };
        Some((weights, tensor?.ggml_type().format()?))
    };
    let of = |(weights, format): (&'static str, Format)| ReadBy {
        weights,
        format: format.name(),
        takes: ActivationFormat::for_weights(format).map(ActivationFormat::name),
    };
    let there = readers(node)
        .iter()
        .filter_map(|&weights| format_of(weights));
    match layer {
        Some(_) => there.map(of).collect(),
        None => there.take(1).map(of).collect(),
    }
}
