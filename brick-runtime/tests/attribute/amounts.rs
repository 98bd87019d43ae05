//! `flops`, `bytes`, `tokens`, `elements`: evaluated per call, before the body, when on.

use std::cell::Cell;

use brick_runtime::brick;

use crate::{BrickId, ON, stats};

#[brick(
    id = Amounts,
    flops = 2 * x.len() * N,
    bytes = size_of_val(x) as f64 * 1.5,
    tokens = tokens,
    elements = x.iter().filter(|&&x| x > 0.0).count(),
)]
fn work<const N: usize>(x: &[f32], tokens: u8) {
    std::hint::black_box((x, tokens));
}

#[test]
fn amounts_add_up_over_calls() {
    work::<3>(&[1.0, -1.0], 4);
    work::<5>(&[1.0, 1.0, 0.0, 0.0], 7);
    if let Some(stats) = stats(BrickId::Amounts) {
        assert_eq!(stats.flops(), 2 * 2 * 3 + 2 * 4 * 5);
        assert_eq!(stats.bytes(), 12 + 24);
        assert_eq!(stats.tokens(), 11);
        assert_eq!(stats.elements(), 1 + 2);
    }
}

#[brick(id = AmountsBefore, elements = out.len(), tokens = { count.set(count.get() + 1); 1 })]
fn grows(out: &mut Vec<u8>, count: &Cell<u32>) {
    out.push(count.get() as u8);
}

#[test]
fn amounts_are_evaluated_once_before_the_body_and_only_when_on() {
    let (mut out, count) = (vec![0; 3], Cell::new(0));
    grows(&mut out, &count);
    assert_eq!(count.get(), u32::from(ON));
    assert_eq!(out, [0, 0, 0, u8::from(ON)]);
    assert_eq!(
        stats(BrickId::AmountsBefore).map_or(3, |stats| stats.elements()),
        3
    );
}
