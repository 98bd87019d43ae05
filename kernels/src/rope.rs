//! Rotary position embedding (Su et al., 2021).

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;
use crate::parallel::{Plan, cut, ranges};

/// Which elements of a head are rotated together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopePairing {
    /// `(i, i + n_dims / 2)`: split halves, ggml's NEOX (gemma, qwen).
    Neox,
    /// `(2i, 2i + 1)`: interleaved, ggml's NORM (llama, whose converter permutes Q and K for it).
    Norm,
}

/// What sets the angles of a rotation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeConfig<'a> {
    /// Which elements pair.
    pub pairing: RopePairing,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of a head that are rotated, from the first on; the rest is left alone. Even, at
    /// most `head_dim`.
    pub n_dims: usize,
    /// Frequency base: pair `i` turns by `base^(-2i / n_dims)` for each position.
    pub base: f32,
    /// Factor on every angle: 1 / the linear scaling factor of the context.
    pub freq_scale: f32,
    /// Divisor of each pair's frequency, `[n_dims / 2]` (Llama 3's `rope_freqs`).
    pub freq_factors: Option<&'a [f32]>,
}

/// Frequencies of one kind of layer, computed once.
#[derive(Debug, Clone)]
pub struct Rope {
    pairing: RopePairing,
    head_dim: usize,
    /// Radians by which each pair turns from one position to the next.
    frequencies: Vec<f64>,
}

impl Rope {
    /// The frequencies that `config` sets.
    ///
    /// # Errors
    /// If `n_dims` is zero, odd or more than `head_dim`; the base or the scale is not positive and
    /// finite; the factors are not `n_dims / 2`, or one of them is not positive and finite.
    pub fn new(config: &RopeConfig<'_>) -> Result<Self, KernelError> {
        const POSITIVE: &str = "a positive finite number";
        let positive = |value: f32| value > 0.0 && value.is_finite();
        let check = Check("Rope::new");
        check.non_zero("n_dims", config.n_dims)?;
        check.at_most("n_dims", config.n_dims, config.head_dim)?;
        let pairs = check.quotient("n_dims", config.n_dims, 2)?;
        check.parameter("base", config.base, positive(config.base), POSITIVE)?;
        let scale = config.freq_scale;
        check.parameter("freq_scale", scale, positive(scale), POSITIVE)?;
        let factors = config.freq_factors.unwrap_or_default();
        if config.freq_factors.is_some() {
            check.equal("freq_factors.len()", factors.len(), pairs)?;
        }
        for &factor in factors {
            check.parameter("freq_factors", factor, positive(factor), POSITIVE)?;
        }
        let frequency = |i: usize| {
            let exponent = -2.0 * i as f64 / config.n_dims as f64;
            let factor = factors.get(i).copied().map_or(1.0, f64::from);
            f64::from(config.base).powf(exponent) * f64::from(scale) / factor
        };
        Ok(Self {
            pairing: config.pairing,
            head_dim: config.head_dim,
            frequencies: (0..pairs).map(frequency).collect(),
        })
    }

    /// Rotates the heads of one token at `pos`.
    ///
    /// Angles and their sines are computed in `f64`: at position 10⁵, an `f32` angle is off by
    /// several thousandths of a radian.
    fn rotate(&self, pos: usize, heads: &mut [f32]) {
        let half = self.frequencies.len();
        for (i, frequency) in self.frequencies.iter().enumerate() {
            let (sin, cos) = (pos as f64 * frequency).sin_cos();
            let (sin, cos) = (sin as f32, cos as f32);
            let (first, second) = match self.pairing {
                RopePairing::Neox => (i, i + half),
                RopePairing::Norm => (2 * i, 2 * i + 1),
            };
            for head in heads.chunks_exact_mut(self.head_dim) {
                let (a, b) = (head[first], head[second]);
                head[first] = a * cos - b * sin;
                head[second] = a * sin + b * cos;
            }
        }
    }
}

/// Rotates the heads of consecutive tokens in place: `x` is `[n_tokens, n_heads, head_dim]`, its
/// first token stands at `first_pos`.
///
/// # Errors
/// If `n_heads` is zero, `x` is not whole tokens or the last position overflows.
#[brick(
    id = RopeEmbedding,
    budget_us = 10 + x.len() / 100,
    assert(x = "finite"),
    flops = 3 * x.len(),
    bytes = 8 * x.len(),
    category = Attention
)]
pub fn rope_embedding(
    rope: &Rope,
    first_pos: usize,
    n_heads: usize,
    x: &mut [f32],
) -> Result<(), KernelError> {
    /// A sine and a cosine in `f64`, in multiply-adds.
    const SIN_COS_FLOPS: usize = 80;
    let check = Check("rope_embedding");
    check.non_zero("n_heads", n_heads)?;
    let token = check.product("n_heads * head_dim", [n_heads, rope.head_dim])?;
    let n_tokens = check.quotient("x.len()", x.len(), token)?;
    check.sum("first_pos + n_tokens", first_pos, n_tokens)?;
    let flops = 3 * token + SIN_COS_FLOPS * rope.frequencies.len();
    let plan = Plan::new(n_tokens, n_tokens, flops);
    let parts = ranges(n_tokens, 1, plan.n_parts());
    let pieces = cut(x, parts.clone().map(|tokens| tokens.len() * token));
    plan.run(
        "tokens",
        parts.zip(pieces),
        || (),
        |(), (tokens, x)| {
            for (t, heads) in tokens.zip(x.chunks_exact_mut(token)) {
                rope.rotate(first_pos + t, heads);
            }
        },
    );
    Ok(())
}
