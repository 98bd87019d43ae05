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
}

impl Rope {
    /// Angles of so many positions; at most the largest number.
    fn n_angles(&self, n_positions: usize) -> usize {
        n_positions.saturating_mul(self.frequencies.len())
    }
}

/// A sine and a cosine in `f64`, in multiply-adds.
const SIN_COS_FLOPS: usize = 80;

/// The sines and cosines of some consecutive positions: the same for all layers of one kind, and for
/// queries and keys.
#[derive(Debug, Clone, Default)]
pub struct RopeAngles {
    pairs: usize,
    /// `[positions, pairs]`.
    sines: Vec<f32>,
    /// `[positions, pairs]`.
    cosines: Vec<f32>,
}

impl RopeAngles {
    /// Positions that the angles are of.
    fn positions(&self) -> usize {
        self.sines.len() / self.pairs.max(1)
    }
}

/// The angles of `n_positions` positions from `first_pos` on, instead of those that `angles` held.
///
/// Angles and their sines are computed in `f64`: at position 10⁵, an `f32` angle is off by several
/// thousandths of a radian.
///
/// # Errors
/// If the last position or the size overflows, or there is no memory.
#[brick(
    id = RopeAngles,
    budget_us = 10 + rope.n_angles(n_positions) / 10,
    flops = rope.n_angles(n_positions).saturating_mul(SIN_COS_FLOPS),
    bytes = rope.n_angles(n_positions).saturating_mul(8),
    category = Attention
)]
pub fn rope_angles(
    rope: &Rope,
    first_pos: usize,
    n_positions: usize,
    angles: &mut RopeAngles,
) -> Result<(), KernelError> {
    let (check, pairs) = (Check("rope_angles"), rope.frequencies.len());
    check.sum("first_pos + n_positions", first_pos, n_positions)?;
    let len = check.product("n_positions * n_dims", [n_positions, pairs])?;
    for held in [&mut angles.sines, &mut angles.cosines] {
        let no_memory = |_| KernelError::OutOfMemory {
            kernel: "rope_angles",
            bytes: len.saturating_mul(size_of::<f32>()),
        };
        held.try_reserve_exact(len.saturating_sub(held.len()))
            .map_err(no_memory)?;
        held.resize(len, 0.0);
    }
    angles.pairs = pairs;
    let plan = Plan::new(n_positions, SIN_COS_FLOPS * pairs);
    let parts = ranges(n_positions, 1, plan.n_parts());
    let lengths = parts.clone().map(|positions| positions.len() * pairs);
    let (sines, cosines) = (&mut angles.sines, &mut angles.cosines);
    let outs = cut(sines, lengths.clone()).zip(cut(cosines, lengths));
    plan.run(
        "positions",
        parts.zip(outs),
        || (),
        |(), (positions, (sines, cosines))| {
            let rows = sines
                .chunks_exact_mut(pairs)
                .zip(cosines.chunks_exact_mut(pairs));
            for (position, (sines, cosines)) in positions.zip(rows) {
                let position = (first_pos + position) as f64;
                let angles = rope
                    .frequencies
                    .iter()
                    .map(|frequency| position * frequency);
                for (angle, (sine, cosine)) in angles.zip(sines.iter_mut().zip(cosines)) {
                    let (sin, cos) = angle.sin_cos();
                    (*sine, *cosine) = (sin as f32, cos as f32);
                }
            }
        },
    );
    Ok(())
}

/// Rotates the heads of consecutive tokens in place, by the first of `angles`: `x` is `[n_tokens,
/// n_heads, head_dim]`.
///
/// # Errors
/// If `n_heads` is zero, `x` is not whole tokens, or `angles` are of another rope or of fewer positions.
#[brick(
    id = RopeEmbedding,
    budget_us = 10 + x.len() / 200,
    assert(x = "finite"),
    flops = 3 * x.len(),
    bytes = 8 * x.len(),
    category = Attention
)]
pub fn rope_embedding(
    rope: &Rope,
    angles: &RopeAngles,
    n_heads: usize,
    x: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("rope_embedding");
    check.non_zero("n_heads", n_heads)?;
    let token = check.product("n_heads * head_dim", [n_heads, rope.head_dim])?;
    let n_tokens = check.quotient("x.len()", x.len(), token)?;
    let pairs = rope.frequencies.len();
    if n_tokens > 0 {
        check.equal("angles", angles.pairs, pairs)?;
        check.at_most(
            "x.len() / (n_heads * head_dim)",
            n_tokens,
            angles.positions(),
        )?;
    }
    let plan = Plan::new(n_tokens, 3 * token);
    let parts = ranges(n_tokens, 1, plan.n_parts());
    let pieces = cut(x, parts.clone().map(|tokens| tokens.len() * token));
    plan.run(
        "tokens",
        parts.zip(pieces),
        || (),
        |(), (tokens, x)| {
            for (t, heads) in tokens.zip(x.chunks_exact_mut(token)) {
                let of_token = t * pairs..(t + 1) * pairs;
                let angles = (&angles.sines[of_token.clone()], &angles.cosines[of_token]);
                for head in heads.chunks_exact_mut(rope.head_dim) {
                    rope.pairing.rotate(angles, head);
                }
            }
        },
    );
    Ok(())
}

impl RopePairing {
    /// Rotates one head.
    fn rotate(self, (sines, cosines): (&[f32], &[f32]), head: &mut [f32]) {
        let pairs = sines.len();
        let angles = sines.iter().zip(cosines);
        let turn = |a: &mut f32, b: &mut f32, (sin, cos): (&f32, &f32)| {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        };
        match self {
            Self::Neox => {
                let (first, second) = head[..2 * pairs].split_at_mut(pairs);
                for ((a, b), angle) in first.iter_mut().zip(second).zip(angles) {
                    turn(a, b, angle);
                }
            }
            Self::Norm => {
                let both = head[..2 * pairs].as_chunks_mut::<2>().0;
                for ([a, b], angle) in both.iter_mut().zip(angles) {
                    turn(a, b, angle);
                }
            }
        }
    }
}
