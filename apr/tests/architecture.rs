//! Hyperparameters and tensor tables of real files, against what is known of these models.
#![allow(missing_docs)]

mod support;

use apr::arch::{Architecture, Config, SlidingWindow};
use apr::gguf::Gguf;
use brick_kernels::activation::Activation;
use brick_kernels::rope::RopePairing;
use std::num::NonZeroUsize;
use std::path::Path;
use support::refusal::with_key;
use support::writer::F32;
use support::{fetched, golden, open, tiny_llama};

fn config(path: &Path) -> Config {
    Config::load(&Gguf::parse(&open(path)).unwrap()).unwrap()
}

/// The layers that see all positions.
fn global_layers(config: &Config) -> Vec<usize> {
    let global = |layer: &usize| config.window(*layer).is_none();
    (0..config.n_layers).filter(global).collect()
}

#[test]
fn tiny_llama_says_everything() {
    let expected = Config {
        architecture: Architecture::Llama,
        context_length: 256,
        n_embd: 256,
        n_layers: 3,
        n_ff: 256,
        n_heads: 4,
        n_kv_heads: 2,
        head_dim: 64,
        n_vocab: 384,
        rms_eps: 1e-5,
        rope_dims: 64,
        rope_base: 10_000.0,
        rope_freq_scale: 1.0,
        sliding_window: None,
        activation: Activation::Silu,
        embedding_scale: 1.0,
        attention_scale: 0.125,
        logit_softcap: None,
    };
    let config = config(&tiny_llama());
    assert_eq!(config, expected);
    assert_eq!(config.rope(0, None).pairing, RopePairing::Norm);
    assert_eq!(global_layers(&config), [0, 1, 2]);
}

#[test]
fn tiny_qwens() {
    let qwen2 = config(&golden("tiny-qwen2.gguf"));
    assert_eq!(
        (qwen2.n_ff, qwen2.n_kv_heads, qwen2.rope_base),
        (512, 2, 1e6)
    );
    let qwen3 = config(&golden("tiny-qwen3.gguf"));
    assert_eq!((qwen3.head_dim, qwen3.rope_dims), (128, 128));
    for config in [qwen2, qwen3] {
        assert_eq!(config.rope(0, None).pairing, RopePairing::Neox);
        assert_eq!(config.activation, Activation::Silu);
        assert_eq!(config.embedding_scale, 1.0);
    }
}

#[test]
fn optional_tensors_are_what_the_tiny_files_may_lack() {
    for (path, lacking) in [
        (tiny_llama(), 1 + 3 * 3),       // rope_freqs, biases
        (golden("tiny-gemma3.gguf"), 1), // output.weight
        (golden("tiny-qwen2.gguf"), 0),
        (golden("tiny-qwen3.gguf"), 1),
    ] {
        let file = open(&path);
        let gguf = Gguf::parse(&file).unwrap();
        let config = Config::load(&gguf).unwrap();
        let absent = config
            .tensors()
            .filter(|spec| gguf.tensor(&spec.name).is_none());
        let absent: Vec<_> = absent.collect();
        assert!(absent.iter().all(|spec| !spec.required), "{absent:?}");
        assert_eq!(absent.len(), lacking, "{}", path.display());
    }
}

#[test]
fn gemma3_defaults() {
    let Some(path) = fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    let config = config(&path);
    let expected = Config {
        architecture: Architecture::Gemma3,
        context_length: 32_768,
        n_embd: 640,
        n_layers: 18,
        n_ff: 2048,
        n_heads: 4,
        n_kv_heads: 1,
        head_dim: 256,
        n_vocab: 262_144,
        rms_eps: 1e-6,
        // Not in the file: as many as a head has.
        rope_dims: 256,
        rope_base: 1e6,
        rope_freq_scale: 1.0,
        // Only the window is in the file.
        sliding_window: Some(SlidingWindow {
            window: NonZeroUsize::new(512).unwrap(),
            period: 6,
            rope_base: 1e4,
        }),
        activation: Activation::GeluTanh,
        embedding_scale: 640f32.sqrt(),
        attention_scale: 1.0 / 16.0,
        logit_softcap: None,
    };
    assert_eq!(config, expected);
    assert_eq!(global_layers(&config), [5, 11, 17]);
    assert_eq!(config.rope(4, None).base, 1e4);
    assert_eq!(config.rope(5, None).base, 1e6);
    assert_eq!(config.rope(5, None).pairing, RopePairing::Neox);
}

#[test]
fn smollm2_is_a_llama_with_ties_to_its_embedding() {
    let Some(path) = fetched("SmolLM2-135M-Instruct.Q4_1.gguf") else {
        return;
    };
    let config = config(&path);
    assert_eq!(
        (config.n_embd, config.n_layers, config.n_ff),
        (576, 30, 1536)
    );
    assert_eq!(
        (config.n_heads, config.n_kv_heads, config.head_dim),
        (9, 3, 64)
    );
    assert_eq!(config.rope_base, 1e5);
    let file = open(&path);
    assert!(
        Gguf::parse(&file)
            .unwrap()
            .tensor("output.weight")
            .is_none()
    );
}

/// Linear scaling stretches positions, under the key's new and its old name.
#[test]
fn linear_rope_scaling() {
    let scale = |file: &[u8]| {
        Config::load(&Gguf::parse(file).unwrap())
            .unwrap()
            .rope_freq_scale
    };
    for key in ["llama.rope.scaling.factor", "llama.rope.scale_linear"] {
        let file = with_key(key, F32, &4f32.to_le_bytes());
        assert_eq!(scale(&file), 0.25, "{key}");
        let zero = with_key(key, F32, &0f32.to_le_bytes());
        let problems = Config::read(&Gguf::parse(&zero).unwrap()).unwrap_err();
        assert!(problems[0].to_string().contains(key), "{problems:?}");
    }
}
