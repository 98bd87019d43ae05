//! Where two traces part.

use super::document::SCHEMA;
use super::payload::name;
use super::values::Values;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt;
use std::path::Path;

/// What is compared of a trace that was written.
#[derive(Debug, Deserialize)]
pub struct Recorded {
    schema: String,
    steps: Vec<Sampled>,
    tensors: Vec<Tensor>,
    dropped: Dropped,
    payload: Option<Payload>,
    #[serde(skip)]
    values: Option<Values>,
}

#[derive(Debug, Deserialize)]
struct Payload {
    /// Null where the values are in the trace itself.
    file: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Sampled {
    position: usize,
    token: Option<u32>,
}

#[derive(Debug, Deserialize)]
struct Tensor {
    tensor: String,
    layer: Option<usize>,
    pass: usize,
    position: usize,
    shape: [usize; 2],
    stats: Stats,
    first_values: Vec<Option<f32>>,
    values: Option<Vec<Number>>,
}

/// A value: one that is not finite is a text.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f32),
    Other(String),
}

impl Number {
    fn value(&self) -> f32 {
        match self {
            Self::Finite(value) => *value,
            Self::Other(text) => text.parse().unwrap_or(f32::NAN),
        }
    }
}

/// Null where no number is finite.
#[derive(Debug, Deserialize)]
struct Stats {
    min: Option<f32>,
    max: Option<f32>,
    mean: Option<f32>,
    std: Option<f32>,
    nan_count: usize,
    inf_count: usize,
}

#[derive(Debug, Deserialize)]
struct Dropped {
    steps: u64,
    tensors: u64,
}

impl Recorded {
    /// Reads a file that `apr run --trace-output` wrote, and opens the values beside it if it has some.
    ///
    /// # Errors
    /// If it can't be read, is of another schema, or holds no tensors to compare.
    pub fn read(path: &Path) -> Result<Self> {
        let name = || path.display().to_string();
        let text = std::fs::read(path).with_context(name)?;
        let mut trace: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} is no trace of schema {SCHEMA}", name()))?;
        if trace.schema != SCHEMA {
            bail!(
                "{} has schema {:?}, expected {SCHEMA:?}",
                name(),
                trace.schema
            );
        }
        if trace.tensors.is_empty() {
            bail!(
                "{} holds no tensor statistics: record it with --trace-level layer",
                name()
            );
        }
        if let Some(Payload { file: Some(file) }) = &trace.payload {
            // A name, not a path: what lies elsewhere does not belong to the trace.
            let name = Path::new(file).file_name().unwrap_or_default();
            trace.values = Some(Values::open(&path.with_file_name(name))?);
        }
        Ok(trace)
    }
}

/// How far two runs may be apart and still be called the same.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance(pub f64);

/// One of the two traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

/// The first place where two traces part.
#[derive(Clone, Debug, PartialEq)]
enum Parting {
    Missing {
        side: Side,
    },
    Shape {
        a: [usize; 2],
        b: [usize; 2],
    },
    Value {
        what: String,
        a: f64,
        b: f64,
        off: f64,
    },
    Count {
        what: &'static str,
        a: usize,
        b: usize,
    },
    Token {
        a: u32,
        b: u32,
    },
}

/// Where two traces part, and how many of their entries differ.
#[derive(Clone, Debug)]
pub struct Comparison {
    tolerance: f64,
    compared: usize,
    differ: usize,
    first: Option<(String, Parting)>,
    last_same: Option<String>,
    /// The largest distance of those within the tolerance.
    nearest: f64,
    incomplete: bool,
    /// Tensors of which every value was compared.
    whole: usize,
}

type Key<'a> = (usize, Option<usize>, &'a str);

impl Comparison {
    /// Compares each tensor of `a` with the one of `b` at the same position, layer and place, in
    /// the order of the run, then the tokens chosen. Numbers are compared relative to the larger of
    /// the two tensors' largest magnitudes.
    pub fn new(a: &Recorded, b: &Recorded, tolerance: Tolerance) -> Self {
        let mut this = Self {
            tolerance: tolerance.0,
            compared: 0,
            differ: 0,
            first: None,
            last_same: None,
            nearest: 0.0,
            whole: 0,
            incomplete: [a, b]
                .iter()
                .any(|t| t.dropped.steps + t.dropped.tensors > 0),
        };
        let mut theirs: HashMap<Key<'_>, &Tensor> =
            b.tensors.iter().map(|t| (t.key(), t)).collect();
        let mut tokens_a = a.tokens().peekable();
        let mut tokens_b: HashMap<usize, u32> = b.tokens().collect();
        for tensor in &a.tensors {
            // A token at this position was chosen before the pass that reads it.
            while let Some((position, token)) =
                tokens_a.next_if(|&(position, _)| position <= tensor.position)
            {
                this.token(position, token, tokens_b.remove(&position));
            }
            let other = theirs.remove(&tensor.key());
            let parting = match other {
                None => Some(Parting::Missing { side: Side::B }),
                Some(other) => this
                    .part(tensor, other)
                    .or_else(|| this.part_within(tensor, (a.values(tensor)?, b.values(other)?))),
            };
            this.add(tensor.place(), parting);
        }
        for (position, token) in tokens_a {
            this.token(position, token, tokens_b.remove(&position));
        }
        for position in tokens_b.into_keys() {
            let place = format!("position {position}, SAMPLE");
            this.add(place, Some(Parting::Missing { side: Side::A }));
        }
        for tensor in b.tensors.iter().filter(|t| theirs.contains_key(&t.key())) {
            this.add(tensor.place(), Some(Parting::Missing { side: Side::A }));
        }
        this
    }

    /// Whether the two are the same within the tolerance.
    pub fn same(&self) -> bool {
        self.differ == 0
    }

    /// One line: where they part.
    pub fn headline(&self) -> String {
        match &self.first {
            None => "the traces agree".to_owned(),
            Some((place, _)) => format!("the traces part at {place}"),
        }
    }

    fn token(&mut self, position: usize, a: u32, b: Option<u32>) {
        let parting = match b {
            // One of the runs was shorter.
            None => Some(Parting::Missing { side: Side::B }),
            Some(b) => (a != b).then_some(Parting::Token { a, b }),
        };
        self.add(format!("position {position}, SAMPLE"), parting);
    }

    fn add(&mut self, place: String, parting: Option<Parting>) {
        self.compared += 1;
        match parting {
            None if self.first.is_none() => self.last_same = Some(place),
            None => {}
            Some(parting) => {
                self.differ += 1;
                self.first.get_or_insert((place, parting));
            }
        }
    }

    fn part(&mut self, a: &Tensor, b: &Tensor) -> Option<Parting> {
        if a.shape != b.shape {
            return Some(Parting::Shape {
                a: a.shape,
                b: b.shape,
            });
        }
        for (what, a, b) in [
            ("NaN", a.stats.nan_count, b.stats.nan_count),
            ("infinite", a.stats.inf_count, b.stats.inf_count),
        ] {
            if a != b {
                return Some(Parting::Count { what, a, b });
            }
        }
        let scale = a.magnitude().max(b.magnitude());
        let numbers = [
            ("min".to_owned(), a.stats.min, b.stats.min),
            ("max".to_owned(), a.stats.max, b.stats.max),
            ("mean".to_owned(), a.stats.mean, b.stats.mean),
            ("std".to_owned(), a.stats.std, b.stats.std),
        ];
        let values = a.first_values.iter().zip(&b.first_values).enumerate();
        let values = values.map(|(i, (&a, &b))| (format!("value [{i}]"), a, b));
        for (what, a, b) in numbers.into_iter().chain(values) {
            // Null on both sides: no finite number, which the counts told.
            let (Some(a), Some(b)) = (a, b) else { continue };
            let (a, b) = (f64::from(a), f64::from(b));
            if let Some(parting) = self.compare(a, b, scale, || what) {
                return Some(parting);
            }
        }
        None
    }

    /// Every value of two tensors of one shape.
    fn part_within(
        &mut self,
        tensor: &Tensor,
        (a, b): (impl Iterator<Item = f32>, impl Iterator<Item = f32>),
    ) -> Option<Parting> {
        self.whole += 1;
        let scale = tensor.magnitude();
        for (i, (a, b)) in a.zip(b).enumerate() {
            // Values that are not finite are compared by their counts.
            if a.is_finite() && b.is_finite() {
                let what = || format!("value [{i}]");
                let parting = self.compare(a.into(), b.into(), scale, what);
                if parting.is_some() {
                    return parting;
                }
            }
        }
        None
    }

    /// Two numbers of tensors whose largest magnitude is `scale`.
    fn compare(
        &mut self,
        a: f64,
        b: f64,
        scale: f64,
        what: impl FnOnce() -> String,
    ) -> Option<Parting> {
        let off = match (a - b).abs() {
            0.0 => 0.0,
            distance => distance / scale,
        };
        if off > self.tolerance {
            let what = what();
            return Some(Parting::Value { what, a, b, off });
        }
        self.nearest = self.nearest.max(off);
        None
    }
}

impl Recorded {
    /// The values of one of its tensors, if they were written.
    fn values<'a>(&'a self, tensor: &'a Tensor) -> Option<Box<dyn Iterator<Item = f32> + 'a>> {
        if let Some(values) = &tensor.values {
            return Some(Box::new(values.iter().map(Number::value)));
        }
        let name = name(tensor.pass, tensor.layer, &tensor.tensor);
        Some(Box::new(self.values.as_ref()?.get(&name)?))
    }

    /// Positions and the tokens chosen for them.
    fn tokens(&self) -> impl Iterator<Item = (usize, u32)> {
        let token = |step: &Sampled| step.token.map(|token| (step.position, token));
        self.steps.iter().filter_map(token)
    }
}

impl Tensor {
    fn key(&self) -> Key<'_> {
        (self.position, self.layer, &self.tensor)
    }

    fn place(&self) -> String {
        let Self {
            tensor, position, ..
        } = self;
        match self.layer {
            Some(layer) => format!("position {position}, layer {layer}, {tensor}"),
            None => format!("position {position}, {tensor}"),
        }
    }

    fn magnitude(&self) -> f64 {
        let bounds = [self.stats.min, self.stats.max].into_iter().flatten();
        bounds.map(|v| f64::from(v.abs())).fold(0.0, f64::max)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.headline())?;
        if let Some((_, parting)) = &self.first {
            writeln!(f, "  {parting}")?;
            match &self.last_same {
                Some(place) => writeln!(f, "  last the same: {place}")?,
                None => writeln!(f, "  nothing before is the same")?,
            }
        }
        let Self {
            compared,
            differ,
            tolerance,
            nearest,
            ..
        } = self;
        writeln!(f, "{compared} tensors and tokens compared, {differ} differ")?;
        let whole = self.whole;
        match whole {
            0 => writeln!(f, "by their statistics and first values")?,
            _ => writeln!(
                f,
                "{whole} tensors by every value, others by statistics and first values"
            )?,
        }
        if self.incomplete {
            writeln!(
                f,
                "one of the traces dropped entries: they count as missing"
            )?;
        }
        write!(
            f,
            "tolerance: {tolerance:e} of the tensor's largest magnitude; largest distance within: {nearest:.2e}"
        )
    }
}

impl fmt::Display for Parting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { side } => write!(f, "{side:?} has no such entry"),
            Self::Shape { a, b } => write!(f, "shape: A {a:?}, B {b:?}"),
            Self::Value { what, a, b, off } => {
                write!(
                    f,
                    "{what}: A {a}, B {b}, {off:.2e} of the largest magnitude apart"
                )
            }
            Self::Count { what, a, b } => write!(f, "{what} values: A {a}, B {b}"),
            Self::Token { a, b } => write!(f, "token chosen: A {a}, B {b}"),
        }
    }
}
