//! GELU (tanh form) and SiLU, plain and gated.

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::exp::exp;

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
}

/// `½ (1 + tanh u)` is `1 / (1 + e⁻²ᵘ)`, and an exponential costs half of what `tanh` does.
#[inline(always)]
pub(crate) fn gelu_tanh(x: f32) -> f32 {
    const SQRT_2_OVER_PI: f32 = 0.797_884_6;
    let u = SQRT_2_OVER_PI * x * (1.0 + 0.044_715 * x * x);
    x / (1.0 + exp(-2.0 * u))
}

#[inline(always)]
pub(crate) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
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
    Isa::choose()?.gate(kind, gate, up, out);
    Ok(())
}
