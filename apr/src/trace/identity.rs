//! Which program ran which model on which machine.

use crate::gguf::{GgufError, Mapping};
use crate::model_file::ModelFile;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fs;

/// Which program ran which model on which machine. What can't be found out is null, with the
/// reason in a field of its own.
#[derive(Clone, Debug, Serialize)]
pub struct Identity {
    program: Program,
    model: ModelIdentity,
    machine: Machine,
    kernels: Kernels,
}

#[derive(Clone, Debug, Serialize)]
struct Program {
    name: &'static str,
    version: &'static str,
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256_unavailable: Option<String>,
    /// Debug assertions on: not a build to judge speed by.
    debug: bool,
}

#[derive(Clone, Debug, Serialize)]
struct ModelIdentity {
    /// The path as it was given.
    name: String,
    architecture: &'static str,
    bytes: usize,
    sha256: String,
}

#[derive(Clone, Debug, Serialize)]
struct Machine {
    os: &'static str,
    arch: &'static str,
    kernel: Option<String>,
    cpu: Option<String>,
    logical_cpus: Option<usize>,
}

/// What decides the last bits of every number.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Kernels {
    /// As [`brick_kernels::Selection`] names it.
    pub instruction_set: &'static str,
    /// What products with quantised weights take: `int8` or `f32`.
    pub activations: &'static str,
}

impl Identity {
    /// Reads the model and the program's own file once, to hash them.
    pub fn new(file: &ModelFile, architecture: &'static str, kernels: Kernels) -> Self {
        let program = own_hash();
        Self {
            program: Program {
                name: env!("CARGO_PKG_NAME"),
                version: env!("CARGO_PKG_VERSION"),
                sha256_unavailable: program.as_ref().err().map(ToString::to_string),
                sha256: program.ok(),
                debug: cfg!(debug_assertions),
            },
            model: ModelIdentity {
                name: file.name().to_owned(),
                architecture,
                bytes: file.bytes().len(),
                sha256: sha256(file.bytes()),
            },
            machine: Machine {
                os: std::env::consts::OS,
                arch: std::env::consts::ARCH,
                kernel: first_line("/proc/sys/kernel/osrelease"),
                cpu: cpu(),
                logical_cpus: std::thread::available_parallelism().ok().map(usize::from),
            },
            kernels,
        }
    }
}

fn own_hash() -> Result<String, GgufError> {
    let program = Mapping::open(&std::env::current_exe()?)?;
    Ok(sha256(&program))
}

/// In hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let hash = Sha256::digest(bytes);
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(str::to_owned)
}

/// As Linux names it.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(": ").map(|(_, name)| name.to_owned())
}
