//! Which instruction set is used: the best of the CPU, or what the environment asks for.

use std::env::{self, VarError};
use std::sync::OnceLock;

use super::Isa;
use super::Portable;
#[cfg(target_arch = "x86_64")]
use super::{Avx2, Avx512, Avx512Vnni, AvxVnni};
use crate::KernelError;
use crate::simd_config::Unroll;

/// The environment variable that forces an instruction set; read once per process.
const VARIABLE: &str = "BRICK_KERNELS";

/// What the variable can be; `f32` leaves the set to the CPU and the activations unrounded.
const NAMES: [&str; 6] = ["portable", "avx2", "avxvnni", "avx512", "avx512vnni", "f32"];

/// The instruction set of a process, and whether activations may be rounded to 8 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) isa: Isa,
    pub(crate) rounds: bool,
}

impl Choice {
    /// What this process uses.
    ///
    /// # Errors
    /// If `BRICK_KERNELS` is none of its values, or names a set that the CPU lacks.
    pub(crate) fn get() -> Result<Self, KernelError> {
        static CHOICE: OnceLock<Result<Choice, KernelError>> = OnceLock::new();
        CHOICE
            .get_or_init(|| match env::var(VARIABLE) {
                Ok(value) => Self::named(&value),
                Err(VarError::NotPresent) => Ok(Self::best()),
                Err(VarError::NotUnicode(value)) => Self::named(&value.to_string_lossy()),
            })
            .clone()
    }

    fn best() -> Self {
        Self {
            isa: Isa::detect(),
            rounds: true,
        }
    }

    fn named(value: &str) -> Result<Self, KernelError> {
        if value == "f32" {
            return Ok(Self {
                rounds: false,
                ..Self::best()
            });
        }
        let isa = Isa::available().into_iter().find(|isa| isa.key() == value);
        let isa = isa.ok_or_else(|| {
            let known = NAMES.contains(&value);
            KernelError::Environment {
                variable: VARIABLE,
                value: value.to_owned(),
                why: if known {
                    "this CPU does not have it"
                } else {
                    "expected portable, avx2, avxvnni, avx512, avx512vnni or f32"
                },
            }
        })?;
        Ok(Self { isa, rounds: true })
    }
}

impl Isa {
    /// The set that this process uses.
    ///
    /// # Errors
    /// As [`Choice::get`].
    pub(crate) fn choose() -> Result<Self, KernelError> {
        Ok(Choice::get()?.isa)
    }

    /// The best set of this CPU, whatever the environment says: what ceilings are measured with.
    pub(crate) fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Self::Portable(Portable)))
    }

    /// Every set that this CPU has, the best last.
    pub(super) fn available() -> Vec<Self> {
        let mut sets = vec![Self::Portable(Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(Avx2::new().map(Self::Avx2));
            sets.extend(AvxVnni::new().map(Self::AvxVnni));
            sets.extend(Avx512::new().map(Self::Avx512));
            sets.extend(Avx512Vnni::new().map(Self::Avx512Vnni));
        }
        sets
    }

    /// Its register tiles.
    fn unroll(self) -> Unroll {
        match self {
            Self::Portable(_) => Unroll::PORTABLE,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) | Self::AvxVnni(_) => Unroll::AVX2,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => Unroll::AVX_512,
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(_) => Unroll::AVX_512_VNNI,
        }
    }

    /// Its name in the environment variable.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Portable(_) => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(_) => "avxvnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(_) => "avx512vnni",
        }
    }
}

/// What this process computes with: the best that the CPU has, or what the environment variable
/// `BRICK_KERNELS` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// `portable`, `avx2`, `avxvnni`, `avx512` or `avx512vnni`.
    pub instruction_set: &'static str,
    /// Whether products may round their activations to 8 bits, as [`Activations::Rounded`] lets them:
    /// `BRICK_KERNELS=f32` says no to all.
    ///
    /// [`Activations::Rounded`]: crate::quant::Activations::Rounded
    pub rounds_activations: bool,
    /// The register tiles of its loops.
    pub unroll: Unroll,
}

/// What this process computes with. It is settled by the first call of this or of any kernel.
///
/// # Errors
/// [`KernelError::Environment`] if `BRICK_KERNELS` is not one of the sets or `f32`, or names a set that
/// the CPU lacks. Kernels answer with the same error.
pub fn selection() -> Result<Selection, KernelError> {
    let Choice { isa, rounds } = Choice::get()?;
    Ok(Selection {
        instruction_set: isa.key(),
        rounds_activations: rounds,
        unroll: isa.unroll(),
    })
}

#[cfg(test)]
mod tests {
    use super::{Choice, NAMES};
    use crate::arch::Isa;

    #[test]
    fn every_set_can_be_asked_for_by_name() {
        for isa in Isa::available() {
            assert!(NAMES.contains(&isa.key()));
            let choice = Choice::named(isa.key()).unwrap();
            assert_eq!((choice.isa.key(), choice.rounds), (isa.key(), true));
        }
        let exact = Choice::named("f32").unwrap();
        assert_eq!(
            (exact.isa.key(), exact.rounds),
            (Choice::best().isa.key(), false)
        );
    }

    #[test]
    fn what_is_not_a_set_is_an_error() {
        let error = Choice::named("avx3").unwrap_err().to_string();
        assert_eq!(
            error,
            "BRICK_KERNELS is avx3: expected portable, avx2, avxvnni, avx512, avx512vnni or f32"
        );
        let lacking = NAMES
            .iter()
            .find(|name| **name != "f32" && Isa::available().iter().all(|isa| isa.key() != **name));
        if let Some(lacking) = lacking {
            let error = Choice::named(lacking).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("BRICK_KERNELS is {lacking}: this CPU does not have it")
            );
        }
    }
}
