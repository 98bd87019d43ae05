//! How the next token is chosen: the options of `apr run` that are about it.

use anyhow::{Result, anyhow, bail};
use brick_kernels::KernelError;
use brick_kernels::sampling::{Sampler, SamplerConfig};

/// How the next token is chosen.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sampling")]
pub(super) struct SamplingArgs {
    /// Divisor of the logits; 0 always takes the most likely token
    #[arg(
        long,
        value_name = "T",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    temperature: f32,
    /// Draw among the K most likely tokens; 0 is all [default: 40]
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Draw among the fewest tokens that reach this probability together; 1 is all [default: 0.95]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f32>,
    /// Draw among tokens at least this fraction as likely as the best; 0 is all [default: 0.05]
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f32>,
    /// Make the last 64 tokens less likely: divides their positive logits; 1 is off
    #[arg(
        long,
        value_name = "F",
        default_value_t = 1.0,
        allow_negative_numbers = true
    )]
    repeat_penalty: f32,
    /// Seed of the draws: the same seed gives the same text [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SamplingArgs {
    /// The sampler that was asked for.
    ///
    /// # Errors
    /// A value out of range, or an option that greedy choice would ignore.
    pub(super) fn sampler(&self) -> Result<Sampler> {
        Sampler::new(self.config()?).map_err(in_flags)
    }

    /// What was asked for, for a file.
    ///
    /// # Errors
    /// As [`sampler`](Self::sampler).
    pub(super) fn described(&self) -> Result<serde_json::Value> {
        let c = self.config()?;
        Ok(serde_json::json!({
            "temperature": c.temperature,
            "top_k": c.top_k,
            "top_p": c.top_p,
            "min_p": c.min_p,
            "repeat_penalty": c.repeat_penalty,
            "repeat_last_n": c.repeat_last_n,
            "seed": c.seed,
        }))
    }

    fn config(&self) -> Result<SamplerConfig> {
        let default = SamplerConfig::default();
        if self.temperature == 0.0 {
            for (flag, given) in [
                ("--top-k", self.top_k.is_some()),
                ("--top-p", self.top_p.is_some()),
                ("--min-p", self.min_p.is_some()),
                ("--seed", self.seed.is_some()),
            ] {
                if given {
                    bail!("{flag} has no effect at temperature 0: give --temperature too");
                }
            }
        }
        Ok(SamplerConfig {
            temperature: self.temperature,
            top_k: self.top_k.unwrap_or(default.top_k),
            top_p: self.top_p.unwrap_or(default.top_p),
            min_p: self.min_p.unwrap_or(default.min_p),
            repeat_penalty: self.repeat_penalty,
            repeat_last_n: default.repeat_last_n,
            seed: self.seed.unwrap_or(default.seed),
        })
    }
}

/// What the sampler refuses, in the words of the command line: its parameters are named as the
/// flags are.
fn in_flags(error: KernelError) -> anyhow::Error {
    match error {
        KernelError::Parameter {
            argument,
            value,
            expected,
            ..
        } => {
            let flag = argument.replace('_', "-");
            anyhow!("--{flag} is {value}, expected {expected}")
        }
        error => error.into(),
    }
}
