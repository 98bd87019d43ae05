//! Tokens, pieces and round trips against llama.cpp's, string by string.
#![allow(missing_docs)]

mod support;

use apr::gguf::Gguf;
use apr::tokenizer::{EncodeOptions, Tokenizer, Utf8Stream};
use serde_json::Value;
use std::path::Path;
use support::{fetched, golden, json, open, tiny_llama, unhex};

fn ids(value: &Value) -> Vec<u32> {
    let list = value.as_array().unwrap();
    list.iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

fn pieces(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<Vec<u8>> {
    let piece = |&id: &u32| tokenizer.decode(&[id]).unwrap();
    ids.iter().map(piece).collect()
}

fn golden_pieces(case: &Value) -> Vec<Vec<u8>> {
    let list = case["pieces_hex"].as_array().unwrap();
    list.iter().map(|v| unhex(v.as_str().unwrap())).collect()
}

fn check(model: &Path, name: &str) {
    let file = open(model);
    let gguf = Gguf::parse(&file).unwrap();
    let tokenizer = Tokenizer::from_gguf(&gguf).unwrap();
    let golden = json(&golden(&format!("{name}.llama_cpp.json")));
    assert_eq!(
        u64::from(tokenizer.n_tokens()),
        golden["n_vocab"].as_u64().unwrap()
    );
    assert_eq!(tokenizer.bos().map(u64::from), golden["bos"].as_u64());
    assert_eq!(tokenizer.eos().map(u64::from), golden["eos"].as_u64());
    assert_eq!(tokenizer.adds_bos(), golden["add_bos"].as_bool().unwrap());
    let strings = golden["tokenize"].as_array().unwrap();
    assert_eq!(strings.len(), 64);
    for case in strings {
        check_string(&tokenizer, case);
    }
    let invalid = golden["tokenize_invalid_utf8"].as_array().unwrap();
    assert_eq!(invalid.len(), 4);
    for case in invalid {
        let options = EncodeOptions {
            add_special: false,
            parse_special: false,
        };
        let bytes = unhex(case["bytes_hex"].as_str().unwrap());
        let found = tokenizer.encode(bytes, options).unwrap();
        assert_eq!(found, ids(&case["tokens"]), "{case}");
        assert_eq!(pieces(&tokenizer, &found), golden_pieces(case), "{case}");
    }
    for prompt in golden["prompts"].as_array().unwrap() {
        check_prompt(&tokenizer, prompt);
    }
}

fn check_string(tokenizer: &Tokenizer, case: &Value) {
    let options = EncodeOptions {
        add_special: case["add_special"].as_bool().unwrap(),
        parse_special: case["parse_special"].as_bool().unwrap(),
    };
    let text = case["text"].as_str().unwrap();
    let found = tokenizer.encode(text, options).unwrap();
    assert_eq!(found, ids(&case["tokens"]), "{case}");
    assert_eq!(pieces(tokenizer, &found), golden_pieces(case), "{case}");
    // The golden flag compares without any BOS at the start, added or parsed.
    let bos = found.iter().take_while(|&&id| Some(id) == tokenizer.bos());
    let back = tokenizer.decode(&found[bos.count()..]).unwrap();
    let round_trip = case["roundtrip"].as_bool().unwrap();
    assert_eq!(back == text.as_bytes(), round_trip, "{case}");
}

/// The prompts that logits are compared on, and what llama.cpp generated after them.
fn check_prompt(tokenizer: &Tokenizer, prompt: &Value) {
    let text = prompt["prompt"].as_str().unwrap();
    let tokens = ids(&prompt["prompt_tokens"]);
    // The long text is not in the file, only its tokens are; it starts with no space but the
    // one that a vocabulary with a space prefix adds.
    let spelled = tokenizer
        .decode(&tokens[usize::from(tokenizer.adds_bos())..])
        .unwrap();
    let text = match text {
        "LONG" => str::from_utf8(&spelled).unwrap().trim_start(),
        _ => text,
    };
    let found = tokenizer.encode(text, EncodeOptions::default()).unwrap();
    assert_eq!(found, tokens, "{text:?}");
    let (mut stream, mut generated) = (Utf8Stream::new(), String::new());
    for piece in pieces(tokenizer, &ids(&prompt["greedy_tokens"])) {
        stream.push(&piece, &mut generated);
    }
    stream.finish(&mut generated);
    assert_eq!(
        generated,
        prompt["greedy_text"].as_str().unwrap(),
        "{text:?}"
    );
}

#[test]
fn tiny_models() {
    check(&tiny_llama(), "tiny-llama");
    for name in ["tiny-gemma3", "tiny-qwen2", "tiny-qwen3"] {
        check(&golden(&format!("{name}.gguf")), name);
    }
}

fn check_fetched(file: &str, name: &str) {
    if let Some(model) = fetched(file) {
        check(&model, name);
    }
}

#[test]
fn gemma3_270m() {
    check_fetched("gemma-3-270m-q4_k_m.gguf", "gemma3-270m");
}

#[test]
fn smollm2_135m() {
    check_fetched("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m");
}
