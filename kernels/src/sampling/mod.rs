//! Choosing the next token from its logits.

mod candidates;
mod peaks;

use std::collections::VecDeque;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use self::candidates::Candidates;
use self::peaks::Peaks;
use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;

/// How the next token is chosen. The filters apply in llama.cpp's default order, each to what the
/// one before left: repetition penalty, top-k, top-p, min-p, temperature, then the draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplerConfig {
    /// Divisor of the logits before the draw. 0 is greedy: the largest logit after the repetition
    /// penalty, the lowest id among equals; no filter can change that.
    pub temperature: f32,
    /// Keep this many largest logits; 0 keeps all.
    pub top_k: usize,
    /// Keep the fewest largest whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Keep what is at least this fraction of the largest probability; 0 keeps all.
    pub min_p: f32,
    /// Divide the positive logits of recent tokens by this, multiply the negative ones; 1 is off.
    pub repeat_penalty: f32,
    /// How many of the tokens last accepted count as recent.
    pub repeat_last_n: usize,
    /// Seed of the draws: the same seed, settings and logits give the same tokens, on every
    /// machine.
    pub seed: u64,
}

impl SamplerConfig {
    /// Greedy, without a penalty.
    pub const GREEDY: Self = Self {
        temperature: 0.0,
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        repeat_penalty: 1.0,
        repeat_last_n: 0,
        seed: 0,
    };
}

impl Default for SamplerConfig {
    /// llama.cpp's defaults, with seed 0.
    fn default() -> Self {
        Self {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            seed: 0,
        }
    }
}

/// Chooses tokens: the settings, the recent tokens, the random numbers and the buffers.
#[derive(Debug, Clone)]
pub struct Sampler {
    config: SamplerConfig,
    rng: ChaCha8Rng,
    recent: VecDeque<u32>,
    peaks: Peaks,
    candidates: Candidates,
    /// The logits with recent tokens made less likely, where they are.
    penalised: Vec<f32>,
}

impl Sampler {
    /// A sampler with `config`'s settings.
    ///
    /// # Errors
    /// If the temperature is negative, top-p or min-p is not in 0..=1, the penalty is not positive,
    /// or one of them is not finite.
    pub fn new(config: SamplerConfig) -> Result<Self, KernelError> {
        const FRACTION: &str = "between 0 and 1";
        let check = Check("Sampler::new");
        let SamplerConfig {
            temperature,
            top_p,
            min_p,
            repeat_penalty,
            ..
        } = config;
        let temperature_holds = temperature >= 0.0 && temperature.is_finite();
        let penalty_holds = repeat_penalty > 0.0 && repeat_penalty.is_finite();
        check.parameter("temperature", temperature, temperature_holds, "0 or more")?;
        check.parameter("top_p", top_p, (0.0..=1.0).contains(&top_p), FRACTION)?;
        check.parameter("min_p", min_p, (0.0..=1.0).contains(&min_p), FRACTION)?;
        check.parameter(
            "repeat_penalty",
            repeat_penalty,
            penalty_holds,
            "more than 0",
        )?;
        Ok(Self {
            config,
            rng: ChaCha8Rng::seed_from_u64(config.seed),
            recent: VecDeque::new(),
            peaks: Peaks::default(),
            candidates: Candidates::default(),
            penalised: Vec::new(),
        })
    }

    /// Tells the sampler of a token of the text, from the prompt or chosen, for the repetition
    /// penalty.
    pub fn accept(&mut self, token: u32) {
        self.recent.push_back(token);
        while self.recent.len() > self.config.repeat_last_n {
            self.recent.pop_front();
        }
    }

    /// Chooses the id of the next token. Does not accept it.
    ///
    /// A logit of `-inf` is a token that cannot be chosen.
    ///
    /// # Errors
    /// If there are no logits, one is NaN or `+inf`, or all are `-inf`.
    #[brick(
        id = Sampling,
        budget_us = 50 + logits.len() / 100,
        flops = logits.len(),
        bytes = 4 * logits.len(),
        tokens = 1,
        category = Output
    )]
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, KernelError> {
        let config = self.config;
        let (peaks, candidates) = (&mut self.peaks, &mut self.candidates);
        peaks.of(logits)?;
        let mut logits = logits;
        if config.repeat_penalty != 1.0 {
            let recent = self.recent.iter().copied();
            penalise(logits, recent, config.repeat_penalty, &mut self.penalised);
            logits = &self.penalised;
            peaks.of_checked(logits);
        }
        if config.temperature == 0.0 {
            return Ok(peaks.index_of_largest(logits) as u32);
        }
        match peaks.reached_by(config.top_k) {
            // All but the best of all are left out at once; the best are in order, as after top_k.
            Some(least) => {
                candidates.fill(peaks.reaching(logits, least));
                candidates.keep_best(config.top_k);
            }
            None => {
                candidates.fill(logits.iter().copied().enumerate());
                candidates.top_k(config.top_k);
            }
        }
        candidates.top_p(config.top_p);
        candidates.min_p(config.min_p);
        // 53 random bits: every multiple of 2⁻⁵³ in 0..1.
        let uniform = (self.rng.next_u64() >> 11) as f64 * (-53f64).exp2();
        Ok(candidates.draw(config.temperature, uniform))
    }
}

/// The logits with those of the recent tokens made less likely: each once, however often it is among
/// them, because it is made from the logit as it was.
fn penalise(logits: &[f32], recent: impl Iterator<Item = u32>, penalty: f32, out: &mut Vec<f32>) {
    out.clear();
    out.extend_from_slice(logits);
    for token in recent.map(|token| token as usize) {
        if let Some(&logit) = logits.get(token) {
            let penalised = if logit <= 0.0 {
                logit * penalty
            } else {
                logit / penalty
            };
            // A penalty below 1 is a reward and could overflow to an infinity.
            out[token] = penalised.min(f32::MAX);
        }
    }
}
