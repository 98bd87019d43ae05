//! Logits do not depend on the number of threads, to the bit.

use apr::gguf::Gguf;
use apr::model::{Model, Session};
use apr::tokenizer::{EncodeOptions, Tokenizer};
use brick_kernels::Team;
use brick_kernels::quant::Activations;
use std::path::Path;

mod support;

/// Longer than a batch of tokens would be split for two or three threads evenly.
const PROMPT: &str = "The lighthouse keeper counted ships for forty years and wrote each one down: \
    its flag, its sails, the hour. On the last page stands a single line, 2 + 2 = 4, and nothing more.";

/// The bits of all logits after the prompt and after each of some tokens fed one by one.
fn logits(model: &Model<'_>, prompt: &[u32], threads: usize) -> Vec<Vec<u32>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let (pool, team) = (pool.unwrap(), Team::new(threads).unwrap());
    let all = || {
        let single = &prompt[..3];
        let mut session = Session::new(model, prompt.len() + single.len()).unwrap();
        let mut bits = |tokens: &[u32]| -> Vec<u32> {
            let logits = session.feed(tokens).unwrap();
            logits.iter().map(|logit| logit.to_bits()).collect()
        };
        let mut all = vec![bits(prompt)];
        all.extend(single.chunks(1).map(bits));
        all
    };
    pool.install(|| team.install(all))
}

fn check(path: &Path) {
    let file = support::open(path);
    let gguf = Gguf::parse(&file).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let prompt = tokenizer.encode(PROMPT, EncodeOptions::default()).unwrap();
    for activations in [Activations::Rounded, Activations::F32] {
        let model = Model::load(&gguf).unwrap().with_activations(activations);
        let one = logits(&model, &prompt, 1);
        assert_ne!(one[0], one[1], "feeding changes nothing");
        for threads in [2, 3] {
            let several = logits(&model, &prompt, threads);
            for (step, (one, several)) in one.iter().zip(&several).enumerate() {
                let differ = one.iter().zip(several).position(|(a, b)| a != b);
                assert_eq!(
                    differ, None,
                    "{activations:?}: the first logit that is not the same on {threads} threads after step {step}"
                );
            }
        }
    }
}

#[test]
fn of_the_built_in_model() {
    check(&support::tiny_llama());
}

#[test]
fn of_smollm2() {
    if let Some(path) = support::fetched("SmolLM2-135M-Instruct.Q4_1.gguf") {
        check(&path);
    }
}

#[test]
fn of_gemma() {
    if let Some(path) = support::fetched("gemma-3-270m-q4_k_m.gguf") {
        check(&path);
    }
}
