//! Progress: on a terminal, and nowhere else.
#![allow(missing_docs)]

mod support;

use std::process::{Command, Stdio};
use support::fetched;

/// Runs its arguments on a terminal of its own and prints what they wrote there.
const ON_A_TERMINAL: &str = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) != 0)";

#[test]
fn a_long_prompt_shows_how_far_it_is() {
    let Some(model) = fetched("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    // Two batches, of 512 tokens and of the rest; in f32 on one thread they take several seconds.
    let prompt = "The quick brown fox jumps over the lazy dog. ".repeat(60);
    let apr = [env!("CARGO_BIN_EXE_apr"), "run", "-n", "0", "--model"];
    let slow = ["--precision", "f32", "--threads", "1"];
    let rest = [&[model.to_str().unwrap(), "--prompt", &prompt], &slow[..]].concat();

    let mut command = Command::new("python3");
    command.args(["-c", ON_A_TERMINAL]).args(apr).args(&rest);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{shown}");
    assert!(shown.contains("reading the prompt "), "{shown:?}");
    assert!(shown.contains(" 0/602 tokens, 1s"), "{shown:?}");
    assert!(shown.contains(" 512/602 tokens, "), "{shown:?}");

    let output = Command::new(apr[0]).args(&apr[1..]).args(&rest).output();
    let output = output.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), prompt + "\n");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("\nmeasured: load "), "{told}");
    assert!(!told.contains('\x1b') && !told.contains('\r'), "{told:?}");
}
