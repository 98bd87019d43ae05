//! The report as tables for people.

use super::collect::Activation;
use super::human_quant;
use super::kv::KvState;
use super::report::Report;
use crate::terminal::{one_line, table};
use std::io::{self, Write};

/// Prints all that is there.
pub(super) fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let (model, architecture) = (one_line(report.model), report.architecture);
    writeln!(out, "model    {model}, architecture {architecture}")?;
    writeln!(out, "threads  {}", report.threads)?;
    let (fed, generated) = (report.prompt_ids.len(), report.generated_ids.len());
    writeln!(out, "prompt   {:?}, {fed} tokens", report.prompt)?;
    let tokens = report.generated_ids.iter().map(|&id| shown(report, id));
    let tokens = tokens.collect::<Vec<_>>().join(" ");
    writeln!(out, "chosen   {tokens}, {generated} tokens")?;
    attention(report, out)?;
    logits(report, out)?;
    if let Some(errors) = &report.quant_error {
        human_quant::print(errors, out)?;
    }
    if let Some(kv) = &report.kv {
        kv_state(kv, out)?;
    }
    if let Some(activations) = &report.activations {
        stream(activations, out)?;
        extremes(activations, out)?;
    }
    footer(report, out)
}

fn shown(report: &Report<'_>, id: u32) -> String {
    let token = report.tokens.get(&id);
    token.map_or_else(|| format!("token {id}"), |token| token.shown())
}

/// What each head of the last pass attends to.
fn attention(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let (Some(settings), Some(pass)) = (&report.attention, report.passes.last()) else {
        return Ok(());
    };
    writeln!(
        out,
        "\nAttention from position {} ({}), derived from the queries and keys of the run",
        pass.position,
        passes(report),
    )?;
    let recent = format!("% on last {}", settings.recent);
    let tail = format!("% beyond top {}", settings.top_k);
    let header = [
        "layer",
        "head",
        "sees",
        "entropy, nats",
        "% on first",
        &recent,
        &tail,
        "top positions",
    ];
    let mut table = table(header, &[0, 1, 2, 3, 4, 5, 6]);
    for layer in pass.attention.iter().flatten() {
        for (head, stats) in layer.heads.iter().enumerate() {
            let top = stats.top.iter().map(|top| {
                let token = report.token_at(top.position);
                let token = token.map_or_else(String::new, |token| token.shown());
                format!("{} {token} {}", top.position, percent(top.weight.into()))
            });
            table.add_row([
                layer.layer.to_string(),
                head.to_string(),
                stats.positions.to_string(),
                format!("{:.3}", stats.entropy_nats),
                stats.sink_share.map_or("n/a".to_owned(), percent),
                percent(stats.recent_share),
                percent(stats.tail_mass),
                top.collect::<Vec<_>>().join(", "),
            ]);
        }
    }
    writeln!(out, "{}", table.trim_fmt())
}

fn passes(report: &Report<'_>) -> String {
    match report.passes.len() {
        1 => "one pass".to_owned(),
        n => format!("the last of {n} passes, --format json has all"),
    }
}

/// Which layer decides on each token, and how the last pass came to its own.
fn logits(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let Some(last) = report.passes.last().and_then(|pass| pass.logits.as_ref()) else {
        return Ok(());
    };
    writeln!(
        out,
        "\nLogits, derived: final norm and head applied after each layer; the layer from which on a \
         token stays first"
    )?;
    let header = [
        "after position",
        "token",
        "logit",
        "rank",
        "decided by layer",
    ];
    let mut decided = table(header, &[0, 2, 3, 4]);
    for pass in &report.passes {
        for evolution in pass.logits.iter().flatten() {
            let end = evolution.layers.last();
            let deciding = evolution.deciding_layer;
            decided.add_row([
                pass.position.to_string(),
                shown(report, evolution.token),
                end.map_or_else(String::new, |end| format!("{:.4}", end.logit)),
                end.map_or_else(String::new, |end| end.rank.to_string()),
                deciding.map_or("never".to_owned(), |layer| layer.to_string()),
            ]);
        }
    }
    writeln!(out, "{}", decided.trim_fmt())?;

    writeln!(
        out,
        "\nLogit and rank after each layer ({})",
        passes(report)
    )?;
    let names = last.iter().map(|evolution| shown(report, evolution.token));
    let header: Vec<String> = std::iter::once("layer".to_owned()).chain(names).collect();
    let right: Vec<usize> = (0..header.len()).collect();
    let mut layers = table(header, &right);
    let n_layers = last.first().map_or(0, |evolution| evolution.layers.len());
    for layer in 0..n_layers {
        let mut row = vec![layer.to_string()];
        row.extend(last.iter().map(|evolution| {
            let after = evolution.layers[layer];
            format!("{:.4}  {:>6}", after.logit, format!("#{}", after.rank))
        }));
        layers.add_row(row);
    }
    writeln!(out, "{}", layers.trim_fmt())
}

fn kv_state(kv: &KvState, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "\nKV cache, measured: {} of {} positions, {} of {} KiB, {} bytes an element",
        kv.positions,
        kv.capacity,
        kib(kv.used_bytes as f64),
        kib(kv.reserved_bytes as f64),
        kv.element_bytes,
    )?;
    let header = [
        "layer",
        "window",
        "next sees",
        "|K| mean",
        "min",
        "max",
        "|V| mean",
        "min",
        "max",
    ];
    let mut table = table(header, &[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for layer in &kv.layers {
        let mut row = vec![
            layer.layer.to_string(),
            layer
                .window
                .map_or("all".to_owned(), |window| window.to_string()),
            layer.visible.to_string(),
        ];
        for norms in [&layer.k_norm, &layer.v_norm] {
            let figures = [norms.mean(), norms.min(), norms.max()];
            row.extend(figures.map(|norm| norm.map_or("n/a".into(), |norm| format!("{norm:.4}"))));
        }
        table.add_row(row);
    }
    writeln!(out, "{}", table.trim_fmt())?;
    for layer in &kv.layers {
        let bad = layer.k_norm.not_finite() + layer.v_norm.not_finite();
        if bad > 0 {
            writeln!(
                out,
                "layer {}: {bad} rows hold NaN or infinities",
                layer.layer
            )?;
        }
    }
    Ok(())
}

fn kib(bytes: f64) -> String {
    format!("{:.1}", bytes / 1024.0)
}

/// The residual stream of the first batch, layer by layer.
fn stream(activations: &[Activation], out: &mut impl Write) -> io::Result<()> {
    let Some(first) = activations.first() else {
        return writeln!(
            out,
            "\nActivations: unavailable: no memory for them within the cap"
        );
    };
    let (start, n) = (first.first_position, first.positions);
    writeln!(
        out,
        "\nResidual stream of positions {start} to {}, measured",
        start + n - 1
    )?;
    let header = ["after", "min", "max", "mean", "std", "NaN", "inf"];
    let mut table = table(header, &[1, 2, 3, 4, 5, 6]);
    let of_batch = activations
        .iter()
        .filter(|a| a.first_position == start && a.positions == n);
    for activation in of_batch {
        let after = match (activation.layer, activation.tensor) {
            (Some(layer), "layer_output") => format!("layer {layer}"),
            (None, "embedding") => "embedding".to_owned(),
            _ => continue,
        };
        let stats = &activation.stats;
        let moments = [stats.min, stats.max, stats.mean, stats.std];
        let mut row = vec![after];
        row.extend(moments.map(|moment| number(moment.into())));
        row.extend([stats.nan_count, stats.inf_count].map(|count| count.to_string()));
        table.add_row(row);
    }
    writeln!(out, "{}", table.trim_fmt())
}

/// Of each tensor the least and the largest number of all layers and passes, and where.
fn extremes(activations: &[Activation], out: &mut impl Write) -> io::Result<()> {
    if activations.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "\nEvery tensor, over all layers and passes, measured; --format json has each"
    )?;
    let header = [
        "tensor", "recorded", "min", "in layer", "max", "in layer", "NaN", "inf",
    ];
    let mut table = table(header, &[1, 2, 3, 4, 5, 6, 7]);
    let mut names: Vec<&str> = Vec::new();
    for activation in activations {
        if !names.contains(&activation.tensor) {
            names.push(activation.tensor);
        }
    }
    for name in names {
        let of_name = || activations.iter().filter(|a| a.tensor == name);
        let least = of_name().min_by(|a, b| a.stats.min.total_cmp(&b.stats.min));
        // NaN, where nothing is finite, would be the largest of all.
        let known = of_name().filter(|a| !a.stats.max.is_nan());
        let most = known.max_by(|a, b| a.stats.max.total_cmp(&b.stats.max));
        let layer = |a: Option<&Activation>| match a.and_then(|a| a.layer) {
            Some(layer) => layer.to_string(),
            None => "–".to_owned(),
        };
        let value = |v: Option<f32>| v.map_or("n/a".to_owned(), |v| number(v.into()));
        table.add_row([
            name.to_owned(),
            of_name().count().to_string(),
            value(least.map(|a| a.stats.min)),
            layer(least),
            value(most.map(|a| a.stats.max)),
            layer(most),
            of_name()
                .map(|a| a.stats.nan_count)
                .sum::<usize>()
                .to_string(),
            of_name()
                .map(|a| a.stats.inf_count)
                .sum::<usize>()
                .to_string(),
        ]);
    }
    writeln!(out, "{}", table.trim_fmt())
}

fn footer(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    let (records, cost) = (&report.memory.records, &report.cost);
    writeln!(
        out,
        "\ncost: looking on took {:.1} of {:.1} ms (measured), {} (derived)",
        cost.trace_ms,
        cost.run_ms,
        cost.trace_share.value().map_or("n/a".to_owned(), percent),
    )?;
    writeln!(
        out,
        "memory: records of {} KiB within a cap of {} MiB, buffers of {} KiB; {} records dropped",
        kib(records.used() as f64),
        records.bytes() >> 20,
        kib(report.memory.buffer_bytes as f64),
        records.dropped(),
    )
}

fn percent(share: f64) -> String {
    // Rounding may have left a share a little below 0.
    format!("{:.1} %", 100.0 * share.max(0.0))
}

/// Four digits after the point, or an exponent where those would say nothing.
fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "n/a".to_owned(),
        0.0 | 1e-3..1e6 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    }
}
