//! `ensures`: after the body, over the returned value and the parameters.

use brick_runtime::brick;

use crate::{BrickId, assert_faults, record};

#[brick(id = Ensures, ensures = |ret| *ret <= x.len())]
fn position(x: &[i32], of: i32) -> usize {
    x.iter()
        .position(|&value| value == of)
        .unwrap_or(usize::MAX)
}

#[test]
fn it_sees_the_returned_value_and_the_parameters() {
    record();
    assert_eq!(position(&[1, 2], 2), 1);
    assert_faults(BrickId::Ensures, &[]);
    assert_eq!(position(&[1, 2], 3), usize::MAX);
    assert_faults(BrickId::Ensures, &["ensures |ret| *ret <= x.len()"]);
}

#[brick(id = EnsuresOutput, ensures = |_| out.iter().sum::<f32>() > 0.99)]
fn normalise(out: &mut [f32]) {
    let sum: f32 = out.iter().sum();
    for value in out {
        *value /= sum;
    }
}

#[test]
fn it_sees_an_output_that_the_body_consumed() {
    record();
    normalise(&mut [1.0, 3.0]);
    assert_faults(BrickId::EnsuresOutput, &[]);
    normalise(&mut [0.0]);
    assert_faults(
        BrickId::EnsuresOutput,
        &["ensures |_| out.iter().sum::<f32>() > 0.99"],
    );
}

#[brick(id = EnsuresQuestion, ensures = |ret: &Result<u8, _>| ret.is_ok())]
fn digit(text: &str) -> Result<u8, std::num::ParseIntError> {
    let value = text.parse()?;
    Ok(value)
}

#[test]
fn it_sees_the_question_mark() {
    record();
    assert_eq!(digit("7"), Ok(7));
    assert!(digit("x").is_err());
    assert_faults(
        BrickId::EnsuresQuestion,
        &["ensures |ret: &Result<u8, _>| ret.is_ok()"],
    );
}

struct Counter(u32);

impl Counter {
    #[brick(id = EnsuresSelf, ensures = |ret| *ret < self.0)]
    fn next(&mut self) -> u32 {
        self.0 += 1;
        self.0 / 2 * 2
    }
}

#[test]
fn it_sees_self() {
    record();
    let mut counter = Counter(0);
    assert_eq!((counter.next(), counter.next()), (0, 2));
    assert_faults(BrickId::EnsuresSelf, &["ensures |ret| *ret < self.0"]);
}

#[brick(id = EnsuresOpaque, ensures = |ret| ret.clone().count() == n)]
fn first(n: usize) -> impl Iterator<Item = usize> + Clone {
    0..n.min(3)
}

#[test]
fn it_sees_an_unnamed_type() {
    record();
    assert_eq!((first(2).count(), first(4).count()), (2, 3));
    assert_faults(
        BrickId::EnsuresOpaque,
        &["ensures |ret| ret.clone().count() == n"],
    );
}
