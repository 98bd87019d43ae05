//! `assert`: which values it looks at, and after which exits.

use brick_runtime::{Check, Checker, brick, contract};

use crate::{BrickId, assert_faults, record};

#[brick(id = AssertNoNan, assert = "no_nan")]
fn fill(out: &mut [f32], with: f32) {
    out[1] = with;
}

#[test]
fn mutable_parameters_are_checked() {
    record();
    fill(&mut [0.0; 4], f32::INFINITY);
    assert_faults(BrickId::AssertNoNan, &[]);
    fill(&mut [0.0; 4], f32::NAN);
    assert_faults(BrickId::AssertNoNan, &["out[1] no_nan"]);
}

#[brick(id = AssertReturn, assert = "range(-1, 1)")]
fn scaled(x: &[f64], by: f64) -> Vec<f64> {
    x.iter().map(|x| x * by).collect()
}

#[test]
fn the_returned_value_is_checked() {
    record();
    assert_eq!(scaled(&[1.0, -1.0], 1.0), [1.0, -1.0]);
    assert_faults(BrickId::AssertReturn, &[]);
    assert_eq!(scaled(&[0.5, -0.5], 2.5), [1.25, -1.25]);
    assert_faults(BrickId::AssertReturn, &["return[0] range(-1, 1)"]);
}

#[brick(id = AssertEarly, assert = "finite")]
fn early(text: &str, out: &mut Vec<f32>) -> Result<f32, std::num::ParseFloatError> {
    out.push(f32::INFINITY);
    let value: f32 = text.parse()?;
    if value < 0.0 {
        return Ok(f32::NAN);
    }
    out.clear();
    Ok(value)
}

#[test]
fn every_exit_is_checked() {
    record();
    assert_eq!(early("3", &mut Vec::new()), Ok(3.0));
    assert_faults(BrickId::AssertEarly, &[]);
    // The question mark.
    assert!(early("x", &mut Vec::new()).is_err());
    assert_faults(BrickId::AssertEarly, &["out[0] no_inf"]);
    // The early return: one violation is kept per call, the first.
    assert!(early("-1", &mut Vec::new()).unwrap().is_nan());
    assert_faults(BrickId::AssertEarly, &["out[0] no_inf", "out[0] no_inf"]);
}

#[brick(id = AssertList, assert = ["no_nan", "range(0, 1)"])]
fn listed(out: &mut f32, value: f32) {
    *out = value;
}

#[test]
fn a_list_asks_for_all() {
    record();
    for value in [0.5, f32::NAN, 2.0] {
        listed(&mut 0.0, value);
    }
    assert_faults(
        BrickId::AssertList,
        &["out[0] no_nan", "out[0] range(0, 1)"],
    );
}

#[brick(id = AssertNamed, assert(b = "no_inf", return = "no_nan"))]
fn named(a: &mut [f32], b: &mut [f32], value: f32) -> f32 {
    a[0] = value;
    b[0] = value;
    value
}

#[test]
fn only_what_is_named_is_checked() {
    record();
    named(&mut [0.0], &mut [0.0], f32::NAN);
    named(&mut [0.0], &mut [0.0], f32::INFINITY);
    assert_faults(BrickId::AssertNamed, &["return[0] no_nan", "b[0] no_inf"]);
}

#[brick(id = AssertBoth, assert = "no_nan", assert(b = "range(0, 1)"))]
fn both(a: &mut [f32], b: &mut [f32], value: f32) {
    a[0] = value;
    b[0] = value;
}

#[test]
fn names_add_to_what_all_are_asked() {
    record();
    both(&mut [0.0], &mut [0.0], 7.0);
    both(&mut [0.0], &mut [0.0], f32::NAN);
    assert_faults(BrickId::AssertBoth, &["b[0] range(0, 1)", "a[0] no_nan"]);
}

#[brick(id = AssertRepointed, assert = "no_nan")]
fn repointed(mut rest: &mut [f32]) {
    while let Some((first, others)) = rest.split_first_mut() {
        *first = if others.len() == 2 { f32::NAN } else { 1.0 };
        rest = others;
    }
}

#[test]
fn a_parameter_pointed_elsewhere_is_checked_where_it_began() {
    record();
    let mut x = [0.0; 4];
    repointed(&mut x);
    assert_eq!((x[0], x[2], x[3]), (1.0, 1.0, 1.0));
    assert_faults(BrickId::AssertRepointed, &["rest[1] no_nan"]);
}

#[brick(id = AssertMoved, assert = "no_nan")]
fn moved(out: &mut Vec<f32>, value: f32) {
    for slot in out {
        *slot = value;
    }
}

#[test]
fn a_parameter_the_body_consumes_is_checked() {
    record();
    moved(&mut vec![0.0; 2], f32::NAN);
    assert_faults(BrickId::AssertMoved, &["out[0] no_nan"]);
}

/// A type of the user's own.
struct Cache {
    keys: Vec<f32>,
    values: Vec<f32>,
    uses: usize,
}

impl Check for Cache {
    fn check(&self, checker: &mut Checker<'_>) {
        checker.part("keys", &self.keys);
        checker.part("values", &self.values);
    }
}

impl Cache {
    #[brick(id = AssertSelf, assert(self = "finite"))]
    fn append(&mut self, key: f32, value: f32) {
        self.keys.push(key);
        self.values.push(value);
        self.uses += 1;
    }
}

#[test]
fn self_and_types_of_ones_own_are_checked() {
    record();
    let mut cache = Cache {
        keys: vec![],
        values: vec![],
        uses: 0,
    };
    cache.append(1.0, 2.0);
    assert_faults(BrickId::AssertSelf, &[]);
    cache.append(1.0, f32::NEG_INFINITY);
    assert_faults(BrickId::AssertSelf, &["self.values[1] no_inf"]);
    assert_eq!(cache.uses, 2);
}

#[brick(id = AssertGeneric, assert = "no_nan")]
fn generic<T: Check + Copy, const N: usize>(out: &mut [T; N], value: T) -> Option<(T, T)> {
    out.fill(value);
    None
}

#[test]
fn generic_parameters_are_checked() {
    record();
    generic(&mut [0.0_f64; 3], f64::NAN);
    generic(&mut [[0.0_f32; 2]; 3], [1.0, f32::NAN]);
    assert_faults(BrickId::AssertGeneric, &["out[0] no_nan", "out[1] no_nan"]);
}

#[brick(id = AssertCfg, assert = "no_nan")]
fn cfgs(#[cfg(not(test))] gone: &mut [f32], #[cfg(test)] out: &mut [f32], value: f32) {
    out[0] = value;
}

#[test]
fn a_parameter_under_cfg_is_checked_where_it_exists() {
    record();
    cfgs(&mut [0.0], f32::NAN);
    assert_faults(BrickId::AssertCfg, &["out[0] no_nan"]);
}

#[brick(id = AssertSampled, assert = "no_nan")]
fn sampled() -> f32 {
    f32::NAN
}

#[brick(id = AssertUnsampled, assert = "no_nan")]
fn unsampled() -> f32 {
    f32::NAN
}

/// How often a brick may be checked is its own matter, on every thread, and can be taken back.
#[test]
fn a_bricks_own_sampling() {
    record();
    let mut faults = 0;
    let mut check = |every: Option<u32>, calls: usize, found: usize| {
        contract::set_sampling_of(BrickId::AssertSampled, every);
        for _ in 0..calls {
            assert!(sampled().is_nan());
            assert!(unsampled().is_nan());
        }
        faults += found;
        assert_faults(BrickId::AssertSampled, &vec!["return[0] no_nan"; faults]);
    };
    // Before the brick has had a setting of its own, with several, and after.
    check(None, 2, 2);
    check(Some(3), 7, 3);
    check(Some(0), 5, 0);
    check(Some(1), 2, 2);
    check(None, 2, 2);
    std::thread::scope(|scope| {
        contract::set_sampling_of(BrickId::AssertSampled, Some(2));
        // The first and the third.
        scope.spawn(|| (0..3).for_each(|_| assert!(sampled().is_nan())));
    });
    check(None, 0, 2);
    assert_faults(BrickId::AssertUnsampled, &["return[0] no_nan"; 18]);
}
