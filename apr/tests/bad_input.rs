//! Files that are no GGUF, or broken GGUF, through the real binary: each is one line on stderr
//! that names the fault, and exit code 1.
#![allow(missing_docs)]

mod support;

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;
use support::refusal::{apr, assert_refused, patched, refuse, refuse_to_run, with_value};
use support::tiny_llama;
use support::writer::{ARRAY, BOOL, Layout, STRING, U8, Writer, array, patch, string};

#[test]
fn paths() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).into_os_string();
    let inspect = |path| apr(&[OsStr::new("inspect").to_owned(), path]);
    assert_refused(&inspect(dir.path().into()), "is a directory");
    assert_refused(&inspect(path("none.gguf")), "No such file");
    let tokenize = ["tokenize", "--text", "a", "--model", "/none.gguf"];
    assert_refused(&apr(&tokenize), "/none.gguf: cannot open: No such file");
    fs::write(path("empty.gguf"), b"").unwrap();
    assert_refused(&inspect(path("empty.gguf")), "not a GGUF file");
    assert_refused(&inspect(path("two\nlines")), "two\\nlines");
    let pipe = Command::new("mkfifo").arg(path("pipe")).status();
    assert!(pipe.unwrap().success());
    assert_refused(&inspect(path("pipe")), "not a regular file");
}

#[test]
#[cfg(unix)]
fn no_permission() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("secret.gguf");
    fs::copy(tiny_llama(), &file).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode));
    mode(&file, 0o000).unwrap();
    mode(dir.path(), 0o755).unwrap();
    // Root may read everything: then somebody else tries, with a copy he can execute.
    let binary = dir.path().join("apr");
    // By another process: while this one has it open for writing, a child that another test starts
    // has it too, and executing it fails ("text file busy").
    let copy = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_apr"))
        .arg(&binary)
        .status();
    assert!(copy.unwrap().success());
    let mut command = Command::new(&binary);
    command.arg("inspect").arg(&file);
    if fs::read(&file).is_ok() {
        command.uid(65_534);
    }
    assert_refused(&command.output().unwrap(), "Permission denied");
}

#[test]
fn magic_and_version() {
    refuse(&patched(|_, b| patch(b, 0, b"GGML")), "not a GGUF file");
    refuse(
        &patched(|_, b| patch(b, 4, 1u32.to_le_bytes())),
        "version 1 is not supported",
    );
    refuse(
        &patched(|_, b| patch(b, 4, 4u32.to_le_bytes())),
        "version 4 is not supported",
    );
    refuse(
        &patched(|_, b| patch(b, 4, 3u32.to_be_bytes())),
        "big-endian",
    );
    let mut second = Writer::new().text("general.architecture", "none");
    second.version = 2;
    refuse_to_run(&second.bytes(), "architecture \"none\" is not supported");
}

#[test]
fn truncated_anywhere() {
    let bytes = fs::read(tiny_llama()).unwrap();
    let layout = Layout::of(&bytes);
    // Around each boundary of the header that is not inside the vocabulary's 384 items.
    let vocabulary = layout.value("tokenizer.ggml.tokens").start + 100
        ..layout.value("tokenizer.ggml.token_type").end - 100;
    let boundaries = layout
        .boundaries
        .iter()
        .filter(|at| !vocabulary.contains(at));
    let mut cuts: Vec<usize> = boundaries.flat_map(|&at| [at, at + 1]).collect();
    cuts.push(bytes.len() - 1);
    // And many points between, from a fixed sequence (Knuth's multiplicative hash).
    cuts.extend((1..200usize).map(|i| i.wrapping_mul(2_654_435_761) % bytes.len()));
    cuts.extend((1..200usize).map(|i| i.wrapping_mul(2_654_435_761) % layout.data));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.gguf");
    for cut in cuts {
        fs::write(&path, &bytes[..cut]).unwrap();
        let output = apr(&[OsStr::new("inspect"), path.as_os_str()]);
        let expected = match cut {
            0..4 => "not a GGUF file",
            _ => "cut.gguf: ",
        };
        assert_refused(&output, expected);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let told = ["truncated", "cannot fit", "not a GGUF file"];
        assert!(
            told.iter().any(|t| stderr.contains(t)),
            "cut at {cut}: {stderr}"
        );
        assert_eq!(output.stdout, b"", "cut at {cut}");
    }
}

#[test]
fn counts_that_exceed_the_file() {
    let huge = [u64::MAX, 1 << 62, 1 << 32, 1_302_976];
    for count in huge.map(u64::to_le_bytes) {
        refuse(&patched(|_, b| patch(b, 8, count)), "the tensor count");
        refuse(&patched(|_, b| patch(b, 16, count)), "the metadata count");
        // The length of the first key, of a string, of an array, of a tensor's name.
        refuse(
            &patched(|_, b| patch(b, 24, count)),
            "truncated: a metadata key",
        );
        refuse(
            &with_value("general.name", count),
            "truncated: a metadata string",
        );
        let tokens = patched(|layout, bytes| {
            patch(
                bytes,
                layout.value("tokenizer.ggml.tokens").start + 4,
                count,
            );
        });
        refuse(&tokens, "length of array \"tokenizer.ggml.tokens\"");
        let name = patched(|l, b| patch(b, l.tensors[3].name_at, count));
        refuse(&name, "truncated: a tensor's name");
    }
    // One more than there are: the next section is read for it, and told.
    refuse(
        &patched(|_, b| patch(b, 8, 31u64.to_le_bytes())),
        "model.gguf: ",
    );
    refuse(
        &patched(|_, b| patch(b, 16, 27u64.to_le_bytes())),
        "model.gguf: ",
    );
}

#[test]
fn metadata() {
    let file = |writer: Writer, expected| refuse(&writer.bytes(), expected);
    file(
        Writer::new().kv("", STRING, string(b"x")),
        "metadata key 0 is empty",
    );
    let mut not_utf8 = Writer::new().text("a", "b");
    not_utf8.metadata[0].0 = vec![0xff];
    file(not_utf8, "metadata key 0 is not UTF-8");
    let long = "k".repeat(65_536);
    file(
        Writer::new().text(&long, "x"),
        "metadata key 0 is longer than 65535 bytes",
    );
    file(
        Writer::new().u32("a", 1).u32("a", 1),
        "metadata key \"a\" appears twice",
    );
    file(
        Writer::new().kv("a", 13, [0; 8]),
        "\"a\" has unknown value type 13",
    );
    file(
        Writer::new().kv("a", ARRAY, array(77, 1, &[0; 8])),
        "\"a\" has unknown value type 77",
    );
    let nested = array(ARRAY, 1, &array(U8, 1, &[0]));
    file(Writer::new().kv("a", ARRAY, nested), "array of arrays");
    file(
        Writer::new().kv("a", BOOL, [2]),
        "\"a\" is a boolean with value 2",
    );
    file(
        Writer::new().kv("a", ARRAY, array(BOOL, 2, &[1, 9])),
        "\"a\" is a boolean with value 9",
    );
}

#[test]
fn alignment() {
    let with = |alignment| Writer::new().u32("general.alignment", alignment).bytes();
    refuse(
        &with(0),
        "general.alignment is 0, which is not a power of two",
    );
    refuse(
        &with(24),
        "general.alignment is 24, which is not a power of two",
    );
    refuse(&with(u32::MAX), "general.alignment is 4294967295");
    let text = Writer::new().text("general.alignment", "32").bytes();
    refuse(
        &text,
        "\"general.alignment\" is string \"32\", expected an integer",
    );
    let one = |alignment| {
        let writer = Writer::new().u32("general.alignment", alignment);
        writer.tensor("t", &[4], 0, 0).data(64).bytes()
    };
    // A huge but proper one moves the data past the end.
    refuse(&one(1 << 31), "reaches past the end of the file");
    refuse_to_run(&one(1), "\"general.architecture\" is missing");
}

#[test]
fn tensors() {
    let file = |writer: Writer, expected| refuse(&writer.data(4096).bytes(), expected);
    let one = |dims: &[u64], ty, offset| Writer::new().tensor("t", dims, ty, offset);
    file(one(&[], 0, 0), "\"t\" has 0 dimensions");
    file(one(&[1; 5], 0, 0), "\"t\" has 5 dimensions");
    file(one(&[0], 0, 0), "\"t\" has dimensions [0]: none may be 0");
    file(one(&[4, 0, 4], 0, 0), "none may be 0");
    file(one(&[1 << 40], 0, 0), "reaches past the end of the file");
    // 2^42 + 1 rows, as once in a patched Gemma; products that wrap to something small.
    file(
        one(&[32, (1 << 42) + 1], 8, 0),
        "reaches past the end of the file",
    );
    file(one(&[1 << 32, 1 << 32], 0, 0), "overflows 64 bits");
    file(one(&[1 << 62, 4], 0, 0), "overflows 64 bits");
    file(one(&[1 << 62], 0, 0), "overflows 64 bits");
    file(one(&[u64::MAX, u64::MAX, 3], 0, 0), "overflows 64 bits");
    file(one(&[4], 4, 0), "\"t\" has unknown type 4");
    file(one(&[4], u32::MAX, 0), "\"t\" has unknown type 4294967295");
    file(one(&[31], 8, 0), "not whole blocks of Q8_0 (32 elements)");
    file(
        one(&[128], 12, 0),
        "not whole blocks of Q4_K (256 elements)",
    );
    file(
        one(&[4], 0, 16),
        "data offset 16, not a multiple of the alignment 32",
    );
    file(one(&[4], 0, 4096), "reaches past the end of the file");
    file(
        one(&[4], 0, u64::MAX - 31),
        "reaches past the end of the file",
    );
    file(one(&[1024], 0, 32), "reaches past the end of the file");
    file(
        one(&[4], 0, 0).tensor("t", &[4], 0, 32),
        "tensor \"t\" appears twice",
    );
    let overlap = one(&[64], 0, 64).tensor("u", &[32], 0, 0);
    file(overlap, "tensors \"u\" and \"t\" overlap at data offset 64");
    file(
        one(&[4], 0, 0).tensor("", &[4], 0, 32),
        "tensor 1 has a name that is empty",
    );
    let long = Writer::new().tensor(&"n".repeat(65), &[4], 0, 0);
    file(long, "longer than 64 bytes");
}
