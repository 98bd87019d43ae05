//! The report as text for a terminal.

use super::{Check, Report};
use crate::terminal::{one_line, table};
use std::fmt;

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_head(f)?;
        self.fmt_metadata(f)?;
        if !self.tensors.is_empty() {
            self.fmt_tensors(f)?;
            self.fmt_totals(f)?;
        }
        if let Some(check) = &self.check {
            fmt_check(check, f)?;
        }
        self.fmt_problems(f)
    }
}

impl Report<'_> {
    fn fmt_head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "model   {}", one_line(self.model))?;
        writeln!(
            f,
            "format  GGUF version {}, alignment {} bytes, data from byte {}",
            self.gguf_version,
            self.alignment_bytes,
            grouped(self.data_offset_bytes)
        )?;
        writeln!(f, "size    {} bytes", grouped(self.file_bytes))
    }

    fn fmt_metadata(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nMetadata: {} keys", self.metadata.len())?;
        let mut table = table(["key", "type", "value"], &[]);
        for entry in &self.metadata {
            let key = entry.key.escape_debug().to_string();
            table.add_row([&key, entry.type_name, &entry.shown]);
        }
        writeln!(f, "{}", table.trim_fmt())
    }

    fn fmt_tensors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nTensors: {}", self.tensors.len())?;
        let mut table = table(["name", "dimensions", "type", "bytes"], &[3]);
        for tensor in &self.tensors {
            let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
            table.add_row([
                tensor.name.escape_debug().to_string(),
                dims.join(" × "),
                tensor.type_name.to_owned(),
                grouped(tensor.bytes),
            ]);
        }
        writeln!(f, "{}", table.trim_fmt())
    }

    fn fmt_totals(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nTotals, derived from dimensions and types")?;
        let header = [
            "type",
            "tensors",
            "parameters",
            "bytes",
            "% of bytes",
            "bits/parameter",
        ];
        let mut table = table(header, &[1, 2, 3, 4, 5]);
        let mut row = |name: &str, tensors: u64, params: u64, bytes: u64| {
            table.add_row([
                name.to_owned(),
                grouped(tensors),
                grouped(params),
                grouped(bytes),
                format!("{:.1}", 100.0 * bytes as f64 / self.tensor_bytes as f64),
                format!("{:.2}", 8.0 * bytes as f64 / params as f64),
            ]);
        };
        for total in &self.totals {
            row(total.type_name, total.tensors, total.params, total.bytes);
        }
        let tensors = self.tensors.len() as u64;
        row("all", tensors, self.n_params, self.tensor_bytes);
        writeln!(f, "{}", table.trim_fmt())
    }

    fn fmt_problems(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(architecture) = self.runs_as {
            return writeln!(f, "\nProblems: none, runs as {architecture}");
        }
        writeln!(f, "\nProblems: {}", self.problems.len())?;
        for problem in &self.problems {
            writeln!(f, "  {}: {}", problem.kind, problem.message)?;
        }
        Ok(())
    }
}

fn fmt_check(check: &Check, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "\nChecked: {} tensors, {} bytes; {} with a NaN or infinite scale, {} of unknown type left out",
        check.tensors,
        grouped(check.bytes),
        check.faults.len(),
        check.unchecked.len()
    )
}

/// A number with its thousands apart: `1,302,976`.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
