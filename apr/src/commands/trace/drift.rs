//! How far the activations of a quantised model are from those of its reference.

use super::weights::{GroupError, worst_first};
use crate::commands::engine;
use crate::gguf::{self, Gguf};
use crate::model::{Halt, Model, Node, Observer, Session, Tensor, View};
use crate::model_file::ModelFile;
use crate::progress::Progress;
use crate::terminal::one_line;
use anyhow::{Context, Result};
use brick_kernels::quant::Activations;
use brick_kernels::quant::Format;
use brick_runtime::trace::QuantError;
use serde::Serialize;
use std::collections::BTreeMap;

/// The activations against the reference's.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Drift {
    /// Not compared, and why.
    Unavailable {
        /// Always null.
        tensors: Option<()>,
        /// Why.
        why: &'static str,
    },
    /// Compared, the worst first.
    Compared {
        /// The prompt's last position.
        position: usize,
        tensors: Vec<TensorDrift>,
        /// All tensors of one layer together.
        by_layer: Vec<GroupError>,
        /// What both models' tensors of that position took while they were compared.
        buffer_bytes: usize,
    },
}

/// One tensor's distance from the reference's.
#[derive(Debug, Serialize)]
pub(super) struct TensorDrift {
    pub(super) layer: Option<usize>,
    pub(super) tensor: &'static str,
    #[serde(flatten)]
    pub(super) error: QuantError,
}

/// The last position of each tensor.
#[derive(Debug, Default)]
struct LastRows(BTreeMap<(Option<usize>, Node), Vec<f32>>);

impl Observer for LastRows {
    fn tensor(&mut self, tensor: &Tensor<'_>, _view: &View<'_>) -> Result<(), Halt> {
        let last = &tensor.data[tensor.data.len() - tensor.width()..];
        let row = self.0.entry((tensor.at.layer, tensor.node)).or_default();
        row.clear();
        row.extend_from_slice(last);
        Ok(())
    }
}

/// Feeds `ids` to both models and compares every tensor of the last position.
///
/// # Errors
/// If the reference can't be run.
pub(super) fn errors(
    (model, gguf): (&Model<'_>, &Gguf<'_>),
    reference: Option<&ModelFile>,
    ids: &[u32],
) -> Result<Drift> {
    let unavailable = |why| Ok(Drift::Unavailable { tensors: None, why });
    let Some(file) = reference else {
        return unavailable("needs --reference: the same model in F32, F16 or BF16");
    };
    let exact_gguf = file.parse()?;
    if !exact_gguf.tensors().iter().all(is_exact) {
        return unavailable("the reference has tensors that are not F32, F16 or BF16");
    }
    let exact = Model::load(&exact_gguf).with_context(|| file.name().to_owned())?;
    // It is what the model is held against: nothing of it is rounded, keys and values neither.
    let exact = exact.with_activations(Activations::F32);
    if exact.config() != model.config() {
        return unavailable("the reference's hyperparameters are not the model's");
    }
    let theirs = last_rows(&exact, &exact_gguf, ids)
        .with_context(|| format!("--reference {}", one_line(file.name())))?;
    let ours = last_rows(model, gguf, ids)?;
    let rows = theirs.0.values().chain(ours.0.values());
    let buffer_bytes = rows.map(|row| size_of::<f32>() * row.len()).sum();
    let mut tensors = Vec::new();
    for (key, x) in &theirs.0 {
        // Equal settings, but one may have a tensor (a norm) that the other lacks.
        let Some(y) = ours.0.get(key) else { continue };
        let mut error = QuantError::default();
        error.add(x, y)?;
        tensors.push(TensorDrift {
            layer: key.0,
            tensor: key.1.name(),
            error,
        });
    }
    tensors.sort_by(|a, b| worst_first(&a.error, &b.error));
    let layers = tensors.iter().map(|t| {
        let of = |layer| format!("layer {layer}");
        let group = t.layer.map_or("outside the layers".to_owned(), of);
        (group, t.error)
    });
    Ok(Drift::Compared {
        position: ids.len() - 1,
        by_layer: GroupError::ranked(layers),
        tensors,
        buffer_bytes,
    })
}

fn is_exact(tensor: &gguf::Tensor<'_>) -> bool {
    let format = tensor.ggml_type().format();
    matches!(format, Some(Format::F32 | Format::F16 | Format::Bf16))
}

fn last_rows(model: &Model<'_>, gguf: &Gguf<'_>, ids: &[u32]) -> Result<LastRows> {
    let mut rows = LastRows::default();
    let progress = Progress::new("comparing the activations", ids.len());
    let mut session = Session::new(model, ids.len())?;
    session.observe(&mut rows);
    engine::diagnosed(&mut session, gguf, |session| {
        session.feed_with(ids, |done| progress.set(done))?;
        Ok(())
    })?;
    drop(session);
    Ok(rows)
}
