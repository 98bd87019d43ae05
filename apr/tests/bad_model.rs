//! Well-formed files that cannot be run, through the real binary: each is one line on stderr
//! that names the fault, and exit code 1.
#![allow(missing_docs)]

mod support;

use std::ffi::OsStr;
use support::golden;
use support::refusal::{
    apr, assert_refused, patched, patched_file, refuse_to_run, with_file, with_key, with_value,
    without_key,
};
use support::writer::{ARRAY, BOOL, F32, I32, STRING, U32, Writer, array, patch, string, strings};

#[test]
fn architecture() {
    let shape = patched(|layout, bytes| {
        let at = layout.tensor("blk.1.attn_k.weight").dims_at + 8;
        patch(bytes, at, 64u64.to_le_bytes());
    });
    let expected = "\"blk.1.attn_k.weight\" has dimensions [256, 64], expected [256, 128]";
    refuse_to_run(&shape, expected);
    // As many elements, but the other way round.
    let transposed = patched_file(&golden("tiny-qwen2.gguf"), |layout, bytes| {
        let dims = [256u64, 512].map(u64::to_le_bytes).concat();
        patch(bytes, layout.tensor("blk.0.ffn_down.weight").dims_at, dims);
    });
    let expected = "\"blk.0.ffn_down.weight\" has dimensions [256, 512], expected [512, 256]";
    refuse_to_run(&transposed, expected);
    let renamed = patched(|layout, bytes| {
        patch(
            bytes,
            layout.tensor("blk.2.ffn_up.weight").name_at + 8,
            b"blk.2.ffn_xx.weight",
        );
    });
    refuse_to_run(
        &renamed,
        "\"blk.2.ffn_up.weight\" [256, 256] is missing, architecture llama",
    );
    let output = with_file(&renamed, |path| {
        apr(&[OsStr::new("inspect"), path.as_os_str()])
    });
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("\"blk.2.ffn_xx.weight\" is unknown to architecture llama"));
    // Q5_1 in place of Q6_K's id: another size, so past the end; I8 for F32: smaller, no kernel.
    let foreign = patched(|l, b| {
        patch(
            b,
            l.tensor("output_norm.weight").type_at,
            24u32.to_le_bytes(),
        )
    });
    refuse_to_run(
        &foreign,
        "\"output_norm.weight\" is I8, which no kernel can compute with",
    );
    let unknown = with_value(
        "general.architecture",
        [&5u64.to_le_bytes()[..], b"llamb"].concat(),
    );
    refuse_to_run(
        &unknown,
        "architecture \"llamb\" is not supported; llama, gemma3, qwen2, qwen3 are",
    );
    refuse_to_run(
        &without_key("general.architecture"),
        "\"general.architecture\" is missing",
    );
}

#[test]
fn hyperparameters() {
    let with = |key: &str, value: u32, expected: &str| {
        refuse_to_run(
            &with_value(&format!("llama.{key}"), value.to_le_bytes()),
            expected,
        );
    };
    with(
        "block_count",
        u32::MAX,
        "block_count\" is 4294967295, expected no more than the file's 30",
    );
    with("block_count", 0, "block_count\" is 0, expected at least 1");
    with(
        "block_count",
        4,
        "\"blk.3.attn_norm.weight\" [256] is missing",
    );
    with(
        "block_count",
        2,
        "\"blk.2.attn_norm.weight\" is unknown to architecture llama",
    );
    with("attention.head_count", 0, "head_count\" is 0");
    with(
        "attention.head_count_kv",
        3,
        "head_count_kv\" is 3, expected a divisor of the 4",
    );
    with(
        "attention.value_length",
        32,
        "value_length\" is 32, expected the keys' 64",
    );
    with(
        "rope.dimension_count",
        63,
        "dimension_count\" is 63, expected an even number",
    );
    with(
        "rope.dimension_count",
        66,
        "dimension_count\" is 66, expected an even number",
    );
    with(
        "vocab_size",
        385,
        "vocab_size\" is 385, expected the 384 tokens",
    );
    with(
        "attention.layer_norm_rms_epsilon",
        f32::NAN.to_bits(),
        "epsilon\" is NaN",
    );
    with("rope.freq_base", (-1f32).to_bits(), "freq_base\" is -1");
    for key in ["context_length", "embedding_length", "feed_forward_length"] {
        with(key, 0, "is 0, expected at least 1");
        let missing = format!("metadata key \"llama.{key}\" is missing");
        refuse_to_run(&without_key(&format!("llama.{key}")), &missing);
    }
    let yarn = with_key("llama.rope.scaling.type", STRING, &string(b"yarn"));
    refuse_to_run(
        &yarn,
        "\"llama.rope.scaling.type\" is \"yarn\", which is not supported",
    );
    let experts = with_key("llama.expert_count", U32, &8u32.to_le_bytes());
    refuse_to_run(
        &experts,
        "\"llama.expert_count\" is 8, which is not supported",
    );
}

#[test]
fn vocabulary() {
    let id = |key: &str| with_value(&format!("tokenizer.ggml.{key}"), 384u32.to_le_bytes());
    for key in ["bos_token_id", "eos_token_id", "unknown_token_id"] {
        let expected =
            format!("\"tokenizer.ggml.{key}\" is 384, but the vocabulary has 384 tokens");
        refuse_to_run(&id(key), &expected);
        with_file(&id(key), |path| {
            let tokenize = ["tokenize", "--text", "a", "--model"].map(OsStr::new);
            assert_refused(
                &apr(&[&tokenize[..], &[path.as_os_str()]].concat()),
                &expected,
            );
        });
    }
    for key in ["tokens", "scores", "model"] {
        let expected = format!("metadata key \"tokenizer.ggml.{key}\" is missing");
        refuse_to_run(&without_key(&format!("tokenizer.ggml.{key}")), &expected);
    }
    let bos = "asks for a token that \"tokenizer.ggml.bos_token_id\" does not name";
    refuse_to_run(&without_key("tokenizer.ggml.bos_token_id"), bos);
    let kind = patched(|layout, bytes| {
        let types = layout.value("tokenizer.ggml.token_type");
        patch(bytes, types.end - 4, 9i32.to_le_bytes());
    });
    refuse_to_run(&kind, "token_type of token 383 is 9");
    let score = patched(|layout, bytes| {
        let scores = layout.value("tokenizer.ggml.scores");
        patch(bytes, scores.end - 4, f32::NAN.to_le_bytes());
    });
    refuse_to_run(&score, "scores of token 383 is NaN");
    let byte = patched(|layout, bytes| {
        let types = layout.value("tokenizer.ggml.token_type");
        patch(bytes, types.end - 4, 6i32.to_le_bytes());
    });
    refuse_to_run(&byte, "token 383 is a byte token, but its text is");
}

fn vocabulary_of(tokens: &[&str], scores: u64, types: u64) -> Writer {
    let zeros = vec![0; 4 * (scores + types) as usize];
    Writer::new()
        .text("general.architecture", "llama")
        .text("tokenizer.ggml.model", "llama")
        .kv("tokenizer.ggml.tokens", ARRAY, strings(tokens))
        .kv(
            "tokenizer.ggml.scores",
            ARRAY,
            array(F32, scores, &zeros[..4 * scores as usize]),
        )
        .kv(
            "tokenizer.ggml.token_type",
            ARRAY,
            array(I32, types, &zeros[..4 * types as usize]),
        )
}

/// Files without hyperparameters: `apr tokenize` needs none.
fn refuse_to_tokenize(writer: &Writer, text: &str, expected: &str) {
    with_file(&writer.bytes(), |path| {
        let args = ["tokenize", "--no-add-special", "--text", text, "--model"].map(OsStr::new);
        let output = apr(&[&args[..], &[path.as_os_str()]].concat());
        assert_refused(&output, expected);
        assert_eq!(output.stdout, b"");
    });
}

#[test]
fn small_vocabularies() {
    refuse_to_tokenize(
        &vocabulary_of(&[], 0, 0),
        "a",
        "tokenizer.ggml.tokens has 0 tokens",
    );
    let short = "\"tokenizer.ggml.scores\" has 1 elements for 2 tokens";
    refuse_to_tokenize(&vocabulary_of(&["a", "b"], 1, 2), "a", short);
    let long = "\"tokenizer.ggml.token_type\" has 3 elements for 2 tokens";
    refuse_to_tokenize(&vocabulary_of(&["a", "b"], 2, 3), "a", long);
    let lacking = vocabulary_of(&["a", "▁"], 2, 2).kv("tokenizer.ggml.add_bos_token", BOOL, [0]);
    refuse_to_tokenize(&lacking, "ab", "no token for byte 0x62");
    let mut typed = vocabulary_of(&["a"], 1, 1);
    typed.metadata[3].2 = array(I32, 1, &[0; 4]);
    refuse_to_tokenize(
        &typed,
        "a",
        "\"tokenizer.ggml.scores\" is an array of i32, expected f32",
    );
    typed.metadata[2].2 = array(I32, 1, &[0; 4]);
    refuse_to_tokenize(
        &typed,
        "a",
        "\"tokenizer.ggml.tokens\" is an array of i32, expected string",
    );
}

#[test]
fn byte_pair_vocabularies() {
    let bpe = |pre: &str, merges: &[&str]| {
        Writer::new()
            .text("tokenizer.ggml.model", "gpt2")
            .text("tokenizer.ggml.pre", pre)
            .kv("tokenizer.ggml.tokens", ARRAY, strings(&["a", "b", "ab"]))
            .kv("tokenizer.ggml.merges", ARRAY, strings(merges))
    };
    refuse_to_tokenize(
        &bpe("novel", &[]),
        "a",
        "tokenizer.ggml.pre \"novel\" is not supported",
    );
    refuse_to_tokenize(&bpe("gpt-2", &["ab"]), "a", "merges[0] is \"ab\": no space");
    refuse_to_tokenize(
        &bpe("gpt-2", &["a b", "c b"]),
        "a",
        "merges[1] is \"c b\": its left part",
    );
    refuse_to_tokenize(
        &bpe("gpt-2", &["a c"]),
        "a",
        "its right part is not a token",
    );
    refuse_to_tokenize(
        &bpe("gpt-2", &["b a"]),
        "a",
        "its parts joined are not a token",
    );
    refuse_to_tokenize(&bpe("gpt-2", &["a b"]), "abc", "no token for byte 0x63");
    let mut bert = bpe("gpt-2", &[]);
    bert.metadata[0].2 = string(b"bert");
    refuse_to_tokenize(&bert, "a", "tokenizer.ggml.model \"bert\" is not supported");
    let mut no_merges = bpe("gpt-2", &[]);
    no_merges.metadata.pop();
    refuse_to_tokenize(&no_merges, "a", "\"tokenizer.ggml.merges\" is missing");
    let mut no_pre = bpe("gpt-2", &[]);
    no_pre.metadata.remove(1);
    refuse_to_tokenize(&no_pre, "a", "\"tokenizer.ggml.pre\" is missing");
}

/// Where a block of `blk.0.*` keeps a scale (golden/quant's layouts), and a value that is none.
const SCALES: [(&str, usize, usize, [u8; 2]); 6] = [
    ("attn_q.weight", 144, 0, [0x00, 0x7c]),     // Q4_K d = inf
    ("attn_k.weight", 176, 2, [0x00, 0xfc]),     // Q5_K dmin = -inf
    ("attn_v.weight", 210, 208, [0x01, 0x7c]),   // Q6_K d = NaN
    ("attn_output.weight", 34, 0, [0xff, 0x7f]), // Q8_0 d = NaN
    ("ffn_gate.weight", 22, 0, [0x00, 0x7e]),    // Q5_0 d = NaN
    ("ffn_up.weight", 18, 0, [0x00, 0x7c]),      // Q4_0 d = inf
];

#[test]
fn scales_that_are_not_numbers() {
    for (name, block_bytes, scale_at, bad) in SCALES {
        let name = format!("blk.0.{name}");
        let elems = if block_bytes > 100 { 256 } else { 32 };
        let blocks_per_row = 256 / elems;
        let block = 5 * blocks_per_row + (blocks_per_row - 1);
        let file = patched(|layout, bytes| {
            let tensor = layout.tensor(&name).data_at;
            patch(bytes, tensor + block * block_bytes + scale_at, bad);
        });
        let at = format!("row 5, block {}", blocks_per_row - 1);
        let expected = format!("tensor {name:?} has a NaN or infinite scale in {at}");
        with_file(&file, |path| {
            let args = [
                OsStr::new("inspect"),
                OsStr::new("--check"),
                path.as_os_str(),
            ];
            let output = apr(&args);
            assert_refused(&output, &expected);
            let report = String::from_utf8_lossy(&output.stdout);
            assert!(report.contains("\nProblems: 1\n"), "{report}");
            // Without the flag the data is not read.
            assert!(apr(&[args[0], args[2]]).status.success());
        });
    }
    // Element 131 of an F16 matrix and of an F32 vector.
    for (name, at, bad, row, element) in [
        (
            "blk.0.ffn_down.weight",
            2 * (256 + 131),
            &[0x00, 0x7e][..],
            1,
            131,
        ),
        (
            "blk.1.attn_norm.weight",
            4 * 131,
            &f32::INFINITY.to_le_bytes(),
            0,
            131,
        ),
    ] {
        let file = patched(|l, b| patch(b, l.tensor(name).data_at + at, bad));
        let expected =
            format!("tensor {name:?} has a NaN or infinite value in row {row}, element {element}");
        with_file(&file, |path| {
            let args = [
                OsStr::new("inspect"),
                OsStr::new("--check"),
                path.as_os_str(),
            ];
            assert_refused(&apr(&args), &expected);
        });
    }
}

#[test]
fn good_files_pass_the_check() {
    for name in ["tiny-gemma3.gguf", "tiny-qwen2.gguf", "tiny-qwen3.gguf"] {
        let path = golden(name).into_os_string();
        let output = apr(&["inspect".into(), "--check".into(), path]);
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
