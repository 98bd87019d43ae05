//! From token ids to the residual stream.

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;
use crate::quant::Matrix;

/// `out[t, :] = table[tokens[t], :] * scale`, with `out` `[tokens.len(), table.cols()]`.
///
/// # Errors
/// If a token is not in the table or `out` has another length.
#[brick(
    id = Embedding,
    budget_us = 5 + out.len() / 200,
    assert(out = "finite"),
    flops = out.len(),
    bytes = tokens.len() * (table.byte_len() / table.rows()) + 4 * out.len(),
    tokens = tokens.len(),
    category = Embedding
)]
pub fn embedding(
    table: &Matrix<'_>,
    tokens: &[u32],
    scale: f32,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("embedding");
    let expected = check.product("out", [tokens.len(), table.cols()])?;
    check.equal("out.len()", out.len(), expected)?;
    for &token in tokens {
        check.index("tokens", token as usize, table.rows())?;
    }
    for (&token, out) in tokens.iter().zip(out.chunks_exact_mut(table.cols())) {
        table.dequantise_row(token as usize, out)?;
        for x in out {
            *x *= scale;
        }
    }
    Ok(())
}
