//! Quantisation errors as tables for people.

use super::drift::Drift;
use super::report::QuantErrors;
use super::rounding::{InputError, RoundingErrors};
use super::weights::{GroupError, TensorError, Weights};
use crate::terminal::{one_line, table};
use brick_runtime::Figure;
use brick_runtime::trace::QuantError;
use std::io::{self, Write};

/// Rows of a ranking that a terminal gets; the JSON has all.
const RANKED: usize = 20;

/// Prints both parts.
pub(super) fn print(errors: &QuantErrors<'_>, out: &mut impl Write) -> io::Result<()> {
    match &errors.weights {
        Weights::Unavailable { why, .. } => {
            writeln!(
                out,
                "\nQuantisation error of the weights: unavailable: {why}"
            )?;
        }
        Weights::Compared {
            reference,
            tensors,
            by_format,
            by_layer,
            not_compared,
        } => {
            let against = one_line(reference);
            writeln!(
                out,
                "\nQuantisation error of the weights against {against}, derived; the worst first"
            )?;
            weights(tensors, out)?;
            groups("format", by_format, out)?;
            groups("layer", by_layer, out)?;
            for tensor in not_compared {
                writeln!(
                    out,
                    "{}: unavailable: {}",
                    one_line(tensor.name),
                    tensor.why
                )?;
            }
        }
    }
    drift(&errors.drift, out)?;
    match &errors.activations {
        None => writeln!(
            out,
            "\nRounding of activations: unavailable: no memory for it within the cap"
        ),
        Some(errors) => roundings(errors, out),
    }
}

fn weights(tensors: &[TensorError<'_>], out: &mut impl Write) -> io::Result<()> {
    let header = [
        "tensor",
        "format",
        "reference",
        "SNR, dB",
        "mse",
        "max |error|",
        "cosine",
    ];
    let mut table = table(header, &[3, 4, 5, 6]);
    for tensor in tensors.iter().take(RANKED) {
        let mut row = vec![one_line(tensor.name), tensor.format.to_owned()];
        row.push(tensor.reference_format.to_owned());
        row.extend(error(&tensor.error));
        table.add_row(row);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    more(tensors.len(), out)
}

/// The activations against the reference's.
fn drift(drift: &Drift, out: &mut impl Write) -> io::Result<()> {
    let (position, tensors, by_layer) = match drift {
        Drift::Unavailable { why, .. } => {
            return writeln!(out, "\nDrift of the activations: unavailable: {why}");
        }
        Drift::Compared {
            position,
            tensors,
            by_layer,
            ..
        } => (position, tensors, by_layer),
    };
    writeln!(
        out,
        "\nDrift of the activations at position {position} from the reference's, derived; the worst first"
    )?;
    let header = ["layer", "tensor", "SNR, dB", "mse", "max |error|", "cosine"];
    let mut table = table(header, &[0, 2, 3, 4, 5]);
    for tensor in tensors.iter().take(RANKED) {
        let layer = tensor.layer;
        let layer = layer.map_or("–".to_owned(), |layer| layer.to_string());
        let mut row = vec![layer, tensor.tensor.to_owned()];
        row.extend(error(&tensor.error));
        table.add_row(row);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    more(tensors.len(), out)?;
    groups("layer", by_layer, out)
}

fn groups(by: &str, groups: &[GroupError], out: &mut impl Write) -> io::Result<()> {
    let header = [by, "tensors", "SNR, dB", "mse", "max |error|", "cosine"];
    let mut table = table(header, &[1, 2, 3, 4, 5]);
    for group in groups {
        let mut row = vec![group.group.clone(), group.tensors.to_string()];
        row.extend(error(&group.error));
        table.add_row(row);
    }
    writeln!(out, "\n{}", table.trim_fmt())
}

/// SNR, mse, largest error and cosine.
fn error(error: &QuantError) -> [String; 4] {
    let snr = match error.is_exact() {
        true => "exact".to_owned(),
        false => fixed(&error.snr_db(), 2),
    };
    let small = |figure: Figure| figure.value().map_or("n/a".into(), |v| format!("{v:.3e}"));
    let cosine = fixed(&error.cosine(), 7);
    [snr, small(error.mse()), small(error.max_abs()), cosine]
}

fn fixed(figure: &Figure, decimals: usize) -> String {
    format!("{figure:.decimals$}")
}

/// Inputs of matrix products.
fn roundings(errors: &RoundingErrors, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nRounding activations to 8 bits, as integer dot products do (this run {}), derived; the worst \
         first",
        if errors.applied { "too" } else { "does not" }
    )?;
    let header = [
        "layer",
        "tensor",
        "width",
        "read by",
        "rounded to",
        "SNR, dB",
        "mse",
        "max |error|",
        "cosine",
    ];
    let mut table = table(header, &[0, 2, 5, 6, 7, 8]);
    for input in errors.inputs.iter().take(RANKED) {
        let layer = input.layer;
        let mut row = vec![
            layer.map_or("head".to_owned(), |layer| layer.to_string()),
            input.tensor.to_owned(),
            input.width.to_string(),
            readers(input),
            input.ranked_by.to_owned(),
        ];
        row.extend(error(&input.ranked()));
        table.add_row(row);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    more(errors.inputs.len(), out)?;
    groups("format", &errors.by_format, out)?;
    groups("layer", &errors.by_layer, out)
}

/// `attn_q attn_k Q4_K, attn_v Q6_K`
fn readers(input: &InputError) -> String {
    let mut text = String::new();
    for (index, by) in input.read_by.iter().enumerate() {
        text.push_str(by.weights.trim_end_matches(".weight"));
        text.push(' ');
        match input.read_by.get(index + 1) {
            Some(next) if next.format == by.format => {}
            Some(_) => text.push_str(&format!("{}, ", by.format)),
            None => text.push_str(by.format),
        }
    }
    text
}

fn more(n: usize, out: &mut impl Write) -> io::Result<()> {
    match n.saturating_sub(RANKED) {
        0 => Ok(()),
        more => writeln!(out, "and {more} more: --format json has all"),
    }
}
