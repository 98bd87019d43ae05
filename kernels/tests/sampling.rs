//! The sampler chain: each filter against its definition, draws against their probabilities.

mod common;

use brick_kernels::KernelError;
use brick_kernels::sampling::{Sampler, SamplerConfig};
use common::numbers;
use proptest::prelude::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Nothing but the draw.
const ALL: SamplerConfig = SamplerConfig {
    temperature: 1.0,
    ..SamplerConfig::GREEDY
};

fn sampler(config: SamplerConfig) -> Sampler {
    Sampler::new(config).unwrap()
}

/// How often each id comes in `n` draws.
fn histogram(config: SamplerConfig, logits: &[f32], n: usize) -> Vec<usize> {
    let mut sampler = sampler(config);
    let mut counts = vec![0; logits.len()];
    for _ in 0..n {
        counts[sampler.sample(logits).unwrap() as usize] += 1;
    }
    counts
}

/// The ids that ever come.
fn drawn(config: SamplerConfig, logits: &[f32]) -> Vec<usize> {
    let counts = histogram(config, logits, 20_000);
    (0..counts.len()).filter(|&id| counts[id] > 0).collect()
}

#[test]
fn greedy_takes_the_largest_and_the_lowest_id_among_equals() {
    let mut greedy = sampler(SamplerConfig::GREEDY);
    assert_eq!(greedy.sample(&[1.0, 3.0, 2.0]).unwrap(), 1);
    assert_eq!(greedy.sample(&[1.0, 3.0, 3.0, 3.0]).unwrap(), 1);
    assert_eq!(greedy.sample(&[-0.0, 0.0]).unwrap(), 0);
    assert_eq!(greedy.sample(&[f32::NEG_INFINITY, -5.0]).unwrap(), 1);
    // No filter gets in its way.
    let config = SamplerConfig {
        top_k: 1,
        top_p: 0.1,
        min_p: 1.0,
        ..SamplerConfig::GREEDY
    };
    assert_eq!(sampler(config).sample(&[1.0, 3.0, 3.0]).unwrap(), 1);
}

#[test]
fn draws_come_as_often_as_their_probabilities() {
    let logits = [0.5f32, -1.0, 2.0, 0.0, f32::NEG_INFINITY];
    for temperature in [0.5f32, 1.0, 3.0] {
        let n = 40_000;
        let counts = histogram(
            SamplerConfig {
                temperature,
                seed: 11,
                ..ALL
            },
            &logits,
            n,
        );
        let weights = logits.map(|l| f64::from(l / temperature).exp());
        let sum: f64 = weights.iter().sum();
        for (count, weight) in counts.iter().zip(weights) {
            let p = weight / sum;
            let five_sigma = 5.0 * (n as f64 * p * (1.0 - p)).sqrt();
            assert!(
                (*count as f64 - n as f64 * p).abs() <= five_sigma,
                "{counts:?}"
            );
        }
    }
}

#[test]
fn filters_keep_what_they_say() {
    let logits = [0.1f32, 0.5, 0.1, 0.2, 0.1].map(f32::ln);
    assert_eq!(drawn(ALL, &logits), [0, 1, 2, 3, 4]);
    assert_eq!(drawn(SamplerConfig { top_k: 2, ..ALL }, &logits), [1, 3]);
    // Among equals, the lowest ids.
    assert_eq!(drawn(SamplerConfig { top_k: 3, ..ALL }, &logits), [0, 1, 3]);
    assert_eq!(
        drawn(SamplerConfig { top_k: 99, ..ALL }, &logits),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(drawn(SamplerConfig { top_p: 0.45, ..ALL }, &logits), [1]);
    assert_eq!(drawn(SamplerConfig { top_p: 0.55, ..ALL }, &logits), [1, 3]);
    assert_eq!(
        drawn(SamplerConfig { top_p: 0.75, ..ALL }, &logits),
        [0, 1, 3]
    );
    assert_eq!(drawn(SamplerConfig { top_p: 0.0, ..ALL }, &logits), [1]);
    assert_eq!(drawn(SamplerConfig { min_p: 0.3, ..ALL }, &logits), [1, 3]);
    assert_eq!(
        drawn(SamplerConfig { min_p: 0.19, ..ALL }, &logits),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(drawn(SamplerConfig { min_p: 1.0, ..ALL }, &logits), [1]);
}

/// As in llama.cpp, the filters see probabilities before the temperature flattens them, and top-p
/// sees those that top-k left.
#[test]
fn filters_come_in_llama_cpps_order() {
    let logits = [0.5f32, 0.2, 0.15, 0.1, 0.05].map(f32::ln);
    let hot = SamplerConfig {
        temperature: 100.0,
        ..ALL
    };
    assert_eq!(drawn(SamplerConfig { top_p: 0.6, ..hot }, &logits), [0, 1]);
    assert_eq!(
        drawn(SamplerConfig { min_p: 0.25, ..hot }, &logits),
        [0, 1, 2]
    );
    // 0.5 and 0.2 of the 0.7 that two leave are 0.71 and 0.29: the first alone reaches 0.7.
    assert_eq!(
        drawn(
            SamplerConfig {
                top_k: 2,
                top_p: 0.7,
                ..ALL
            },
            &logits
        ),
        [0]
    );
    assert_eq!(drawn(SamplerConfig { top_p: 0.7, ..ALL }, &logits), [0, 1]);
}

#[test]
fn recent_tokens_are_penalised_once_and_forgotten_after_the_window() {
    let config = SamplerConfig {
        repeat_penalty: 2.0,
        repeat_last_n: 2,
        ..SamplerConfig::GREEDY
    };
    let mut sampler = sampler(config);
    let positive = [3.0, 2.0, 1.6];
    assert_eq!(sampler.sample(&positive).unwrap(), 0);
    sampler.accept(0);
    sampler.accept(0);
    assert_eq!(sampler.sample(&positive).unwrap(), 1); // 1.5, 2, 1.6
    assert_eq!(sampler.sample(&[5.0, 2.0, 1.6]).unwrap(), 0); // 2.5: halved once, not twice
    sampler.accept(1);
    assert_eq!(sampler.sample(&positive).unwrap(), 2); // 1.5, 1, 1.6
    sampler.accept(2);
    assert_eq!(sampler.sample(&positive).unwrap(), 0); // 0 is out of the window
    // A negative logit moves away from zero.
    assert_eq!(sampler.sample(&[-1.9, -1.0, -3.0]).unwrap(), 0); // -1.9, -2, -6
    // A token outside the vocabulary is nobody's.
    sampler.accept(u32::MAX);
    assert_eq!(sampler.sample(&positive).unwrap(), 0);
}

#[test]
fn the_seed_decides() {
    let logits = numbers(1, 1000);
    let draw = |seed| {
        let mut sampler = sampler(SamplerConfig {
            seed,
            ..SamplerConfig::default()
        });
        (0..50)
            .map(|_| sampler.sample(&logits).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn logits_that_are_not_numbers_are_errors() {
    for config in [SamplerConfig::GREEDY, SamplerConfig::default()] {
        let mut sampler = sampler(config);
        let index = |logits: &[f32], sampler: &mut Sampler| match sampler.sample(logits) {
            Err(KernelError::BadValue { index, .. }) => Some(index),
            _ => None,
        };
        assert_eq!(index(&[0.0, f32::NAN, f32::NAN], &mut sampler), Some(1));
        assert_eq!(index(&[0.0, 1.0, f32::INFINITY], &mut sampler), Some(2));
        assert_eq!(index(&[f32::NEG_INFINITY; 3], &mut sampler), Some(0));
        assert!(matches!(sampler.sample(&[]), Err(KernelError::Zero { .. })));
        assert!(sampler.sample(&[0.0, f32::NEG_INFINITY]).is_ok());
    }
}

#[test]
fn settings_out_of_range_are_errors() {
    let base = SamplerConfig::default();
    for (name, config) in [
        (
            "temperature",
            SamplerConfig {
                temperature: -0.1,
                ..base
            },
        ),
        (
            "temperature",
            SamplerConfig {
                temperature: f32::INFINITY,
                ..base
            },
        ),
        ("top_p", SamplerConfig { top_p: 1.1, ..base }),
        (
            "top_p",
            SamplerConfig {
                top_p: f32::NAN,
                ..base
            },
        ),
        (
            "min_p",
            SamplerConfig {
                min_p: -0.1,
                ..base
            },
        ),
        (
            "repeat_penalty",
            SamplerConfig {
                repeat_penalty: 0.0,
                ..base
            },
        ),
    ] {
        let error = Sampler::new(config).map(|_| ()).unwrap_err();
        assert!(matches!(error, KernelError::Parameter { argument, .. } if argument == name));
    }
}

/// What the filters leave, from their definitions over a full sort, with borders wider by `slack`:
/// on which side a probability next to one falls is a matter of rounding.
fn kept(config: &SamplerConfig, logits: &[f32], slack: f64) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    ids.sort_by(|&a, &b| {
        logits[b as usize]
            .total_cmp(&logits[a as usize])
            .then(a.cmp(&b))
    });
    if config.top_k > 0 {
        ids.truncate(config.top_k);
    }
    let p = |id: u32| f64::from(logits[id as usize]).exp();
    let sum: f64 = ids.iter().map(|&id| p(id)).sum();
    let mut before = 0.0;
    ids.retain(|&id| {
        let keep = before < f64::from(config.top_p) * sum * (1.0 + slack);
        before += p(id);
        keep
    });
    let best = p(ids[0]);
    ids.retain(|&id| p(id) >= f64::from(config.min_p) * best * (1.0 - slack));
    ids
}

proptest! {
    #[test]
    fn only_what_the_filters_keep_is_drawn(
        n in 1usize..2000, top_k in 0usize..600, top_p in 0.05f32..=0.999, min_p in 0.0f32..0.5,
        size in 0.1f32..20.0, seed: u64,
    ) {
        let logits: Vec<f32> = numbers(seed, n).iter().map(|v| v * size).collect();
        let config = SamplerConfig { temperature: 1e4, top_k, top_p, min_p, seed, ..ALL };
        let widest = kept(&config, &logits, 1e-5);
        let mut sampler = sampler(config);
        for _ in 0..200 {
            let id = sampler.sample(&logits).unwrap();
            prop_assert!(widest.contains(&id), "{id} of {} kept", widest.len());
        }
        // And the last one surely kept is within reach: at this temperature all are about as likely.
        let narrowest = kept(&config, &logits, -1e-5);
        if widest.len() <= 20 && !narrowest.is_empty() {
            let last = narrowest[narrowest.len() - 1];
            prop_assert!((0..2000).any(|_| sampler.sample(&logits).unwrap() == last));
        }
    }
}

/// The sampler without any shortcut: all candidates, sorted where a filter wants the best, and sums in
/// the order in which they then lie.
struct Plain {
    config: SamplerConfig,
    rng: ChaCha8Rng,
}

impl Plain {
    fn sample(&mut self, logits: &[f32], recent: &[u32]) -> u32 {
        let c = self.config;
        let mut list: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
        for (id, logit) in &mut list {
            if recent.contains(id) {
                *logit = match *logit {
                    l if l <= 0.0 => l * c.repeat_penalty,
                    l => l / c.repeat_penalty,
                };
            }
        }
        let by_id = list.clone();
        list.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap().then(a.0.cmp(&b.0)));
        let (best, max) = list[0];
        if c.temperature == 0.0 {
            return best;
        }
        let weight = |l: f32| f64::from(l - max).exp();
        let has_k = c.top_k != 0 && c.top_k < list.len();
        if has_k {
            list.truncate(c.top_k);
        }
        if c.top_p < 1.0 {
            // Without top-k the sum is over all of them as they come.
            let summed = if has_k { &list } else { &by_id };
            let wanted = f64::from(c.top_p) * summed.iter().map(|c| weight(c.1)).sum::<f64>();
            let sums = list.iter().scan(0.0, |sum, c| {
                *sum += weight(c.1);
                Some(*sum)
            });
            let kept = sums.take_while(|&sum| sum < wanted).count() + 1;
            list.truncate(kept);
        } else if !has_k {
            list = by_id;
        }
        if c.min_p > 0.0 {
            list.retain(|&(_, logit)| logit >= max + c.min_p.ln());
        }
        let uniform = (self.rng.next_u64() >> 11) as f64 * (-53f64).exp2();
        let weight = |l: f32| (f64::from(l - max) / f64::from(c.temperature)).exp();
        let wanted = uniform * list.iter().map(|c| weight(c.1)).sum::<f64>();
        let mut sum = 0.0;
        let over = list.iter().find(|c| {
            sum += weight(c.1);
            sum > wanted
        });
        over.map_or(best, |candidate| candidate.0)
    }
}

proptest! {
    /// Few distinct logits make ties at every border.
    #[test]
    fn draws_what_the_plain_sampler_draws(
        n in 1usize..40_000, temperature in prop::sample::select(vec![0.0f32, 0.3, 1.0, 50.0]),
        top_k in prop::sample::select(vec![0usize, 1, 2, 5, 40, 3000]),
        top_p in prop::sample::select(vec![0.3f32, 0.95, 1.0]),
        min_p in prop::sample::select(vec![0.0f32, 0.05, 1.0]),
        repeat_penalty in prop::sample::select(vec![1.0f32, 1.3, 0.5]),
        steps in prop::sample::select(vec![3.0f32, 1e4]), seed: u64,
    ) {
        let config = SamplerConfig {
            temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n: 8, seed,
        };
        let mut sampler = sampler(config);
        let mut plain = Plain { config, rng: ChaCha8Rng::seed_from_u64(seed) };
        let mut recent = Vec::new();
        for round in 0..4 {
            let mut logits = numbers(seed ^ round, n);
            for logit in &mut logits {
                *logit = (*logit * steps).round() / steps * 4.0;
            }
            if n > 1 {
                logits[n / 2] = f32::NEG_INFINITY;
            }
            let id = sampler.sample(&logits).unwrap();
            prop_assert_eq!(id, plain.sample(&logits, &recent), "round {}", round);
            sampler.accept(id);
            recent.push(id);
        }
    }
}
