//! What quantisation cost the weights: against a file of the same model in full precision.

use crate::gguf::{Gguf, GgufError, Tensor};
use crate::model_file::ModelFile;
use crate::progress::Progress;
use anyhow::{Result, bail};
use brick_kernels::quant::{Format, Matrix};
use brick_runtime::trace::QuantError;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;

/// Elements that are compared in one piece of parallel work, about.
const PIECE: usize = 1 << 16;

/// The weights against their reference.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Weights<'a> {
    /// Not compared, and why.
    Unavailable {
        /// Always null.
        tensors: Option<()>,
        /// Why.
        why: &'static str,
    },
    /// Compared, the worst first.
    Compared {
        /// The reference's path.
        reference: &'a str,
        /// Each tensor.
        tensors: Vec<TensorError<'a>>,
        /// All tensors of one format together.
        by_format: Vec<GroupError>,
        /// All tensors of one layer together; the tensors outside of layers have none.
        by_layer: Vec<GroupError>,
        /// Tensors that could not be compared.
        not_compared: Vec<NotCompared<'a>>,
    },
}

/// One tensor's error.
#[derive(Debug, Serialize)]
pub(super) struct TensorError<'a> {
    pub(super) name: &'a str,
    pub(super) layer: Option<usize>,
    pub(super) format: &'static str,
    pub(super) reference_format: &'static str,
    #[serde(flatten)]
    pub(super) error: QuantError,
}

/// The error of several tensors taken together.
#[derive(Debug, Serialize)]
pub(super) struct GroupError {
    pub(super) group: String,
    pub(super) tensors: usize,
    #[serde(flatten)]
    pub(super) error: QuantError,
}

/// A tensor whose error is not known.
#[derive(Debug, Serialize)]
pub(super) struct NotCompared<'a> {
    pub(super) name: &'a str,
    pub(super) why: String,
}

/// Compares all tensors of `model` with those of the same name in `reference`.
///
/// # Errors
/// If the reference can't be read, or nothing in it can be compared.
pub(super) fn errors<'a>(
    model: &Gguf<'a>,
    reference: Option<&'a ModelFile>,
) -> Result<Weights<'a>> {
    let Some(file) = reference else {
        return Ok(Weights::Unavailable {
            tensors: None,
            why: "needs --reference: the same model in F32, F16 or BF16",
        });
    };
    let reference = file.parse()?;
    let architecture = |gguf: &Gguf<'_>| -> Result<String, GgufError> {
        Ok(gguf.require::<&str>("general.architecture")?.to_owned())
    };
    let (ours, theirs) = (architecture(model)?, architecture(&reference)?);
    if ours != theirs {
        let name = file.name();
        bail!("--reference: {name} is a {theirs} model, and the model a {ours}");
    }
    let mut tensors = Vec::new();
    let mut not_compared = Vec::new();
    let progress = Progress::new("comparing the weights", 0);
    for tensor in model.tensors() {
        match one(tensor, &reference)? {
            Ok(error) => tensors.push(error),
            Err(why) => not_compared.push(NotCompared {
                name: tensor.name(),
                why,
            }),
        }
    }
    drop(progress);
    if tensors.is_empty() {
        let (name, n) = (file.name(), not_compared.len());
        let why = not_compared.first().map_or("", |first| &first.why);
        bail!("--reference: none of the {n} tensors can be compared with {name}: {why}");
    }
    tensors.sort_by(|a, b| worst_first(&a.error, &b.error));
    let formats = tensors.iter().map(|t| (t.format.to_owned(), t.error));
    let layers = tensors.iter().map(|t| {
        let of = |layer| format!("layer {layer}");
        (t.layer.map_or("outside the layers".to_owned(), of), t.error)
    });
    Ok(Weights::Compared {
        reference: file.name(),
        by_format: GroupError::ranked(formats),
        by_layer: GroupError::ranked(layers),
        tensors,
        not_compared,
    })
}

/// The larger error first.
pub(super) fn worst_first(a: &QuantError, b: &QuantError) -> std::cmp::Ordering {
    let ((a, a_snr), (b, b_snr)) = (a.badness(), b.badness());
    a.cmp(&b).then(a_snr.total_cmp(&b_snr))
}

/// One tensor's error, or why there is none.
fn one<'a>(tensor: &Tensor<'a>, reference: &Gguf<'_>) -> Result<Result<TensorError<'a>, String>> {
    let Some(exact) = reference.tensor(tensor.name()) else {
        return Ok(Err("the reference has no such tensor".to_owned()));
    };
    if exact.dims() != tensor.dims() {
        let (theirs, ours) = (exact.dims(), tensor.dims());
        return Ok(Err(format!("it is {ours:?}, the reference's {theirs:?}")));
    }
    let (ours, theirs) = match (tensor.matrix(), exact.matrix()) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(why), _) | (_, Err(why)) => return Ok(Err(why.to_string())),
    };
    if !matches!(theirs.format(), Format::F32 | Format::F16 | Format::Bf16) {
        let format = theirs.format();
        return Ok(Err(format!("the reference's is {format} itself")));
    }
    Ok(Ok(TensorError {
        name: tensor.name(),
        layer: layer_of(tensor.name()),
        format: ours.format().name(),
        reference_format: theirs.format().name(),
        error: compare(&theirs, &ours)?,
    }))
}

/// `N` of `blk.N.…`.
fn layer_of(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// Pieces are merged in order: the figures do not depend on the number of threads.
fn compare(reference: &Matrix<'_>, quantised: &Matrix<'_>) -> Result<QuantError> {
    let (rows, cols) = (reference.rows(), reference.cols());
    let piece = (PIECE / cols).max(1);
    let starts: Vec<usize> = (0..rows).step_by(piece).collect();
    let pieces = starts.into_par_iter().map(|start| -> Result<QuantError> {
        let mut error = QuantError::default();
        let (mut x, mut y) = (vec![0.0; cols], vec![0.0; cols]);
        for row in start..rows.min(start + piece) {
            reference.dequantise_row(row, &mut x)?;
            quantised.dequantise_row(row, &mut y)?;
            error.add(&x, &y)?;
        }
        Ok(error)
    });
    let pieces: Vec<QuantError> = pieces.collect::<Result<_>>()?;
    let mut whole = QuantError::default();
    pieces.iter().for_each(|piece| whole.merge(piece));
    Ok(whole)
}

impl GroupError {
    /// Errors of the same name together; the worst first.
    pub(super) fn ranked(errors: impl Iterator<Item = (String, QuantError)>) -> Vec<Self> {
        let mut groups: BTreeMap<String, (usize, QuantError)> = BTreeMap::new();
        for (group, error) in errors {
            let (count, whole) = groups.entry(group).or_default();
            *count += 1;
            whole.merge(&error);
        }
        let named = |(group, (tensors, error))| Self {
            group,
            tensors,
            error,
        };
        let mut groups: Vec<Self> = groups.into_iter().map(named).collect();
        groups.sort_by(|a, b| worst_first(&a.error, &b.error));
        groups
    }
}
