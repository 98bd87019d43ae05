//! The projections of a transformer block, each a brick of its own.
//!
//! All shapes are `[n_tokens, …]`, row-major. Results do not depend on the number of threads, and
//! a token's result not on the tokens beside it.

use brick_runtime::brick;

use crate::KernelError;
use crate::activation::Activation;
use crate::arch::Isa;
use crate::check::Check;
use crate::linear::{Input, check_shapes, project, project_all, store};
use crate::quant::Matrix;

/// The weights of the query, key and value projections of one layer, with what biases they have.
#[derive(Debug, Clone, Copy)]
pub struct QkvWeights<'a> {
    /// `[n_heads * head_dim, n_embd]`.
    pub q: Matrix<'a>,
    /// `[n_kv_heads * head_dim, n_embd]`.
    pub k: Matrix<'a>,
    /// `[n_kv_heads * head_dim, n_embd]`.
    pub v: Matrix<'a>,
    /// `[q.rows()]`, if the model has it.
    pub q_bias: Option<&'a [f32]>,
    /// `[k.rows()]`, if the model has it.
    pub k_bias: Option<&'a [f32]>,
    /// `[v.rows()]`, if the model has it.
    pub v_bias: Option<&'a [f32]>,
}

impl QkvWeights<'_> {
    /// Bytes of the three matrices together.
    pub fn byte_len(&self) -> usize {
        self.q.byte_len() + self.k.byte_len() + self.v.byte_len()
    }

    /// Outputs of the three matrices together, for one token.
    pub fn outputs(&self) -> usize {
        self.q.rows() + self.k.rows() + self.v.rows()
    }
}

/// Query, key and value projections in one parallel region: `q = x Wqᵀ + bq` and so on, with `x`
/// `[n_tokens, n_embd]` and each output `[n_tokens, rows of its matrix]`.
///
/// # Errors
/// If a length does not match.
#[brick(
    id = QkvProjection,
    budget_us = 20 + w.q.cols() * (q.len() + k.len() + v.len() + 7 * w.outputs()) / 16000,
    assert(q = "finite", k = "finite", v = "finite"),
    flops = 2 * w.q.cols() * (q.len() + k.len() + v.len()),
    bytes = w.byte_len() + 4 * (x.len() + q.len() + k.len() + v.len()),
    category = Attention
)]
pub fn qkv_projection(
    w: &QkvWeights<'_>,
    x: &[f32],
    n_tokens: usize,
    q: &mut [f32],
    k: &mut [f32],
    v: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("qkv_projection");
    check_shapes(check, &w.q, ("x.len()", x), n_tokens, ("q.len()", q))?;
    check_shapes(check, &w.k, ("x.len()", x), n_tokens, ("k.len()", k))?;
    check_shapes(check, &w.v, ("x.len()", x), n_tokens, ("v.len()", v))?;
    let biases = [
        ("w.q_bias.len()", w.q_bias, w.q.rows()),
        ("w.k_bias.len()", w.k_bias, w.k.rows()),
        ("w.v_bias.len()", w.v_bias, w.v.rows()),
    ];
    for (name, bias, rows) in biases {
        check.equal(name, bias.map_or(rows, <[f32]>::len), rows)?;
    }
    let x = Input::new(x, n_tokens, &[&w.q, &w.k, &w.v])?;
    let biases = biases.map(|(_, bias, _)| bias);
    let finish = |group: usize, row: usize, [products]: [&[f32]; 1], out: &mut [f32]| {
        let Some(bias) = biases[group] else {
            return store(row, [products], out);
        };
        for (out, (product, bias)) in out.iter_mut().zip(products.iter().zip(&bias[row..])) {
            *out = product + bias;
        }
    };
    project_all(&[[&w.q], [&w.k], [&w.v]], &x, [q, k, v], finish);
    Ok(())
}

/// The projection of the heads' outputs back to the residual stream: `out[t] = W x[t]`, with `x`
/// `[n_tokens, n_heads * head_dim]` and `out` `[n_tokens, n_embd]`.
///
/// # Errors
/// If a length does not match.
#[brick(
    id = OutputProjection,
    budget_us = 20 + w.cols() * (out.len() + 7 * w.rows()) / 16000,
    assert(out = "finite"),
    flops = 2 * w.cols() * out.len(),
    bytes = w.byte_len() + 4 * (x.len() + out.len()),
    category = Attention
)]
pub fn output_projection(
    w: &Matrix<'_>,
    x: &[f32],
    n_tokens: usize,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("output_projection");
    check_shapes(check, w, ("x.len()", x), n_tokens, ("out.len()", out))?;
    project([w], &Input::new(x, n_tokens, &[w])?, out, store);
    Ok(())
}

/// The weights of the feed-forward network's gated first half.
#[derive(Debug, Clone, Copy)]
pub struct GateUpWeights<'a> {
    /// `[n_ff, n_embd]`; its product goes through the activation.
    pub gate: Matrix<'a>,
    /// `[n_ff, n_embd]`.
    pub up: Matrix<'a>,
}

impl GateUpWeights<'_> {
    /// Bytes of the two matrices together.
    pub fn byte_len(&self) -> usize {
        self.gate.byte_len() + self.up.byte_len()
    }
}

/// Gate and up projections with the activation between them, in one pass: `out[t] =
/// activation(G x[t]) * (U x[t])`, with `x` `[n_tokens, n_embd]` and `out` `[n_tokens, n_ff]`.
/// Neither half is ever written to memory.
///
/// # Errors
/// If a length does not match, or the two matrices differ in shape.
#[brick(
    id = GateUpProjection,
    budget_us = 20 + w.gate.cols() * (out.len() + 7 * w.gate.rows()) / 8000,
    assert(out = "finite"),
    flops = (4 * w.gate.cols() + 13) * out.len(),
    bytes = w.byte_len() + 4 * (x.len() + out.len()),
    category = FeedForward
)]
pub fn gate_up_projection(
    w: &GateUpWeights<'_>,
    activation: Activation,
    x: &[f32],
    n_tokens: usize,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("gate_up_projection");
    check.equal("w.up.rows()", w.up.rows(), w.gate.rows())?;
    check.equal("w.up.cols()", w.up.cols(), w.gate.cols())?;
    check_shapes(check, &w.gate, ("x.len()", x), n_tokens, ("out.len()", out))?;
    let isa = Isa::choose()?;
    let x = Input::new(x, n_tokens, &[&w.gate, &w.up])?;
    project([&w.gate, &w.up], &x, out, |_, [gate, up], out| {
        isa.gate(activation, gate, up, out);
    });
    Ok(())
}

/// The feed-forward network's projection back to the residual stream: `out[t] = W x[t]`, with
/// `x` `[n_tokens, n_ff]` and `out` `[n_tokens, n_embd]`.
///
/// # Errors
/// If a length does not match.
#[brick(
    id = DownProjection,
    budget_us = 20 + w.cols() * (out.len() + 7 * w.rows()) / 16000,
    assert(out = "finite"),
    flops = 2 * w.cols() * out.len(),
    bytes = w.byte_len() + 4 * (x.len() + out.len()),
    category = FeedForward
)]
pub fn down_projection(
    w: &Matrix<'_>,
    x: &[f32],
    n_tokens: usize,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("down_projection");
    check_shapes(check, w, ("x.len()", x), n_tokens, ("out.len()", out))?;
    project([w], &Input::new(x, n_tokens, &[w])?, out, store);
    Ok(())
}
