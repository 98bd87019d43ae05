//! GELU (tanh form) and SiLU, plain and gated.

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;

/// The non-linearity of a feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))` (Hendrycks & Gimpel, 2016, the tanh form);
    /// gated: GEGLU.
    GeluTanh,
    /// `x / (1 + e⁻ˣ)`; gated: SwiGLU.
    Silu,
}

impl Activation {
    /// The activation of one number.
    #[inline]
    pub fn apply(self, x: f32) -> f32 {
        match self {
            Self::GeluTanh => gelu_tanh(x),
            Self::Silu => silu(x),
        }
    }

    /// `out = activation(gate) * up`, slices of one length. The choice is made outside the loop.
    pub(crate) fn gate(self, gate: &[f32], up: &[f32], out: &mut [f32]) {
        match self {
            Self::GeluTanh => gate_with(gelu_tanh, gate, up, out),
            Self::Silu => gate_with(silu, gate, up, out),
        }
    }
}

fn gate_with(activation: impl Fn(f32) -> f32, gate: &[f32], up: &[f32], out: &mut [f32]) {
    for (out, (&gate, &up)) in out.iter_mut().zip(gate.iter().zip(up)) {
        *out = activation(gate) * up;
    }
}

/// `½ (1 + tanh u)` is `1 / (1 + e⁻²ᵘ)`, and an exponential costs half of what `tanh` does.
#[inline]
fn gelu_tanh(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let u = SQRT_2_OVER_PI * x * (1.0 + 0.044_715 * x * x);
    x / (1.0 + (-2.0 * u).exp())
}

#[inline]
fn silu(x: f32) -> f32 {
    x / (1.0 + (-x).exp())
}

/// `x[i] = kind(x[i])`, in place.
#[brick(
    id = Activation,
    budget_us = 5 + x.len() / 100,
    assert(x = "finite"),
    flops = 12 * x.len(),
    bytes = 8 * x.len(),
    category = FeedForward
)]
pub fn activation(kind: Activation, x: &mut [f32]) {
    for x in x {
        *x = kind.apply(*x);
    }
}

/// `out[i] = kind(gate[i]) * up[i]`: GEGLU or SwiGLU over projections made elsewhere.
/// [`crate::projection::gate_up_projection`] does both at once.
///
/// # Errors
/// If the lengths differ.
#[brick(
    id = GatedActivation,
    budget_us = 5 + out.len() / 100,
    assert(out = "finite"),
    flops = 13 * out.len(),
    bytes = 12 * out.len(),
    category = FeedForward
)]
pub fn gated_activation(
    kind: Activation,
    gate: &[f32],
    up: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("gated_activation");
    check.equal("up.len()", up.len(), gate.len())?;
    check.equal("out.len()", out.len(), gate.len())?;
    kind.gate(gate, up, out);
    Ok(())
}
