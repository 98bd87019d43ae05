//! Checksums of what kernels computed, and where two runs part.
//!
//! Each tensor has an exact checksum, over all of it, and a sketch: a few numbers from which the
//! distance between two tensors can be told without having either. So runs on different machines or
//! with different instructions, which round differently, can be compared as well.
//!
//! ```
//! use brick_runtime::checksum::{KernelChecksum, find_divergence};
//!
//! let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
//! let mut y = x.clone();
//! y[999] += 5.0;
//! let run = |tensor: &[f32]| [KernelChecksum::of("gemv", Some(3), 7, tensor)];
//! let found = find_divergence(&run(&y), &run(&x), None).unwrap();
//! assert_eq!((found.kernel.as_str(), found.layer, found.position), ("gemv", Some(3), 7));
//! assert_eq!(find_divergence(&run(&y), &run(&x), Some(0.01)), None); // 5 of a norm of 18243
//! ```

use std::fmt;

/// How many projections a sketch has.
const PROJECTIONS: usize = 16;

/// What a kernel computed at one place.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KernelChecksum {
    /// The kernel, or the tensor that it made.
    pub kernel: String,
    /// The layer, inside of one.
    pub layer: Option<u64>,
    /// Position in the sequence of the first token that was computed.
    pub position: u64,
    /// Of every bit.
    pub exact: Exact,
    /// Of every number, but tolerant.
    pub sketch: Sketch,
}

impl KernelChecksum {
    /// Of all of `tensor`.
    #[must_use]
    pub fn of(
        kernel: impl Into<String>,
        layer: Option<u64>,
        position: u64,
        tensor: &[f32],
    ) -> KernelChecksum {
        KernelChecksum {
            kernel: kernel.into(),
            layer,
            position,
            exact: Exact::of(tensor),
            sketch: Sketch::of(tensor),
        }
    }

    fn place(&self) -> (&str, Option<u64>, u64) {
        (&self.kernel, self.layer, self.position)
    }
}

/// FNV-1a-64 over a tensor's little-endian bytes, every NaN as the canonical one `7fc00000`
/// (<http://www.isthe.com/chongo/tech/comp/fnv/>). Zeroes of both signs differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Exact(pub u64);

impl Exact {
    /// Of all of `tensor`.
    #[must_use]
    pub fn of(tensor: &[f32]) -> Exact {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for &value in tensor {
            let bits = if value.is_nan() {
                0x7fc0_0000
            } else {
                value.to_bits()
            };
            for byte in bits.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        Exact(hash)
    }
}

/// 16 hexadecimal digits.
impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// As its hexadecimal digits: many readers of JSON keep 53 bits of a number.
#[cfg(feature = "serde")]
impl serde::Serialize for Exact {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Exact {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Exact, D::Error> {
        let digits = <String as serde::Deserialize>::deserialize(deserializer)?;
        let hash = u64::from_str_radix(&digits, 16)
            .ok()
            .filter(|_| digits.len() == 16);
        let told = || serde::de::Error::custom(format!("{digits:?} is no 16 hexadecimal digits"));
        hash.map(Exact).ok_or_else(told)
    }
}

/// A tensor in a few numbers.
///
/// Each projection is the sum of the finite numbers, each with a sign that its index alone
/// decides. The difference of two tensors' projections squared is, on average, their distance squared
/// (Alon, Matias and Szegedy, "The space complexity of approximating the frequency moments", 1996);
/// with 16 of them, [`distance`](Self::distance) is off by a quarter or so.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sketch {
    /// How many numbers.
    pub len: usize,
    /// How many are NaN.
    pub nan_count: usize,
    /// How many are infinite.
    pub inf_count: usize,
    /// Sum of the squares of the finite ones.
    pub squares: f64,
    /// Sums of the finite ones with signs.
    pub projections: [f64; PROJECTIONS],
}

impl Sketch {
    /// Of all of `tensor`.
    #[must_use]
    pub fn of(tensor: &[f32]) -> Sketch {
        let mut sketch = Sketch {
            len: tensor.len(),
            nan_count: 0,
            inf_count: 0,
            squares: 0.0,
            projections: [0.0; PROJECTIONS],
        };
        for (index, &value) in tensor.iter().enumerate() {
            if !value.is_finite() {
                sketch.nan_count += usize::from(value.is_nan());
                sketch.inf_count += usize::from(value.is_infinite());
                continue;
            }
            let value = f64::from(value);
            sketch.squares += value * value;
            let signs = mix(index as u64);
            for (bit, projection) in sketch.projections.iter_mut().enumerate() {
                // The sign bit of an IEEE double is its highest.
                let sign = (signs >> bit & 1) << 63;
                *projection += f64::from_bits(value.to_bits() ^ sign);
            }
        }
        sketch
    }

    /// The distance from `reference`, estimated, relative to its norm (root of the sum of squares):
    /// 0 is the same. Infinite if the one has more numbers, or more that aren't finite.
    #[must_use]
    pub fn distance(&self, reference: &Sketch) -> f64 {
        let shape = |sketch: &Sketch| (sketch.len, sketch.nan_count, sketch.inf_count);
        if shape(self) != shape(reference) {
            return f64::INFINITY;
        }
        let pairs = self.projections.iter().zip(&reference.projections);
        let squares: f64 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
        match (squares / PROJECTIONS as f64).sqrt() {
            0.0 => 0.0,
            distance => distance / reference.squares.sqrt(),
        }
    }
}

/// SplitMix64's output function (Steele, Lea and Flood, 2014).
fn mix(index: u64) -> u64 {
    let z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// The first place at which two runs part.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The kernel, or the tensor that it made.
    pub kernel: String,
    /// The layer, inside of one.
    pub layer: Option<u64>,
    /// Position in the sequence.
    pub position: u64,
    /// In what they differ there.
    pub difference: Difference,
}

/// In what two runs differ at one place.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// The run has nothing there, and the reference does.
    Missing,
    /// The run has something there, and the reference does not.
    Unexpected,
    /// Some bit, compared exactly.
    Bits {
        /// Of the run.
        found: Exact,
        /// Of the reference.
        expected: Exact,
    },
    /// More than was tolerated.
    Distance {
        /// Relative to the reference's norm, estimated; infinite if the shapes, or the counts of NaN
        /// or of infinities, differ.
        relative: f64,
    },
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kernel)?;
        if let Some(layer) = self.layer {
            write!(f, " of layer {layer}")?;
        }
        write!(f, " at position {}: ", self.position)?;
        match self.difference {
            Difference::Missing => f.write_str("the run has none, the reference does"),
            Difference::Unexpected => f.write_str("the run has one, the reference does not"),
            Difference::Bits { found, expected } => write!(f, "{found}, expected {expected}"),
            Difference::Distance { relative } if relative.is_infinite() => {
                f.write_str("another size, or other counts of NaN or infinities")
            }
            Difference::Distance { relative } => {
                write!(f, "{relative:.2e} of the norm apart (estimated)")
            }
        }
    }
}

/// The first place, in the order of computation, at which `run` is not as `reference`: to the bit,
/// or by more than `tolerance` of the reference's norm.
///
/// What only one of them has is a divergence.
#[must_use]
pub fn find_divergence(
    run: &[KernelChecksum],
    reference: &[KernelChecksum],
    tolerance: Option<f64>,
) -> Option<Divergence> {
    let at = |at: &KernelChecksum, difference| Divergence {
        kernel: at.kernel.clone(),
        layer: at.layer,
        position: at.position,
        difference,
    };
    for (index, (ours, theirs)) in run.iter().zip(reference).enumerate() {
        if ours.place() != theirs.place() {
            // If ours comes later in the reference, what is there before it was skipped.
            let later = &reference[index..];
            let known = later.iter().any(|entry| entry.place() == ours.place());
            return Some(match known {
                true => at(theirs, Difference::Missing),
                false => at(ours, Difference::Unexpected),
            });
        }
        if let Some(difference) = differ(ours, theirs, tolerance) {
            return Some(at(ours, difference));
        }
    }
    let (ours, theirs) = (run.get(reference.len()), reference.get(run.len()));
    let missing = theirs.map(|theirs| at(theirs, Difference::Missing));
    missing.or_else(|| ours.map(|ours| at(ours, Difference::Unexpected)))
}

fn differ(
    ours: &KernelChecksum,
    theirs: &KernelChecksum,
    tolerance: Option<f64>,
) -> Option<Difference> {
    match tolerance {
        None => (ours.exact != theirs.exact).then_some(Difference::Bits {
            found: ours.exact,
            expected: theirs.exact,
        }),
        Some(tolerance) => {
            let relative = ours.sketch.distance(&theirs.sketch);
            // NaN (a reference of zeroes and squares that overflow) is not within it either.
            let apart = relative.is_nan() || relative > tolerance;
            apart.then_some(Difference::Distance { relative })
        }
    }
}
