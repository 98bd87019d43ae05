//! Programs that are not ours, for tests to compare with. Included by path where it is needed.
#![allow(dead_code, missing_docs, unreachable_pub)] // Each test binary uses its part.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests")
}

/// The Python of tests/python-env. `None`, having said so, where it cannot be had; with
/// `BRICK_REQUIRE_ORACLES=1` that is a failure.
pub fn python() -> Option<PathBuf> {
    let made = Command::new(tests().join("python-env")).output();
    let why = match made {
        Ok(output) if output.status.success() => {
            return Some(PathBuf::from(
                String::from_utf8(output.stdout).unwrap().trim(),
            ));
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    let required = std::env::var_os("BRICK_REQUIRE_ORACLES").is_some_and(|v| v == "1");
    assert!(!required, "no Python oracles: {why}");
    eprintln!("skipped, no Python oracles: {why}");
    None
}

/// The system's Python, for oracles that need its standard library only. `None`, having said so, where
/// there is none.
pub fn plain_python() -> Option<PathBuf> {
    match Command::new("python3").arg("--version").output() {
        Ok(_) => Some(PathBuf::from("python3")),
        Err(error) => {
            eprintln!("skipped, no python3: {error}");
            None
        }
    }
}

/// The JSON that an oracle answers with.
///
/// # Panics
/// If it fails: with what it says.
pub fn answer(command: &mut Command) -> serde_json::Value {
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A command that runs tests/oracles/`name`.
pub fn oracle(python: &Path, name: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(tests().join("oracles").join(name));
    command
}

/// A process that is killed when the test is over.
pub struct Running {
    pub child: Child,
    /// The first line that it printed.
    pub first_line: String,
}

impl Running {
    /// Starts it, and returns when it has printed a line.
    pub fn start(command: &mut Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut first_line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut first_line).unwrap();
        Running { child, first_line }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A collector that is not ours, on loopback, until it is dropped: it writes every span down.
pub struct Receiver {
    _process: Running,
    /// The port of OTLP by gRPC.
    pub grpc: u16,
    /// The port of OTLP by HTTP.
    pub http: u16,
}

impl Receiver {
    /// Starts tests/oracles/otlp_receiver.py, which writes to `file`, a line for each span.
    pub fn start(python: &Path, file: &Path) -> Receiver {
        let process = Running::start(oracle(python, "otlp_receiver.py").arg(file));
        let mut ports = process.first_line.split_whitespace().skip(1);
        let mut port = || ports.next().unwrap().parse().unwrap();
        let (grpc, http) = (port(), port());
        Receiver {
            _process: process,
            grpc,
            http,
        }
    }

    /// Where it takes spans by gRPC.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.grpc)
    }
}
