//! Bricks made at run time, in both builds.

mod common;

use std::time::Duration;

#[cfg(not(feature = "visualization"))]
use brick_runtime::BrickProfiler;
use brick_runtime::contract::Fault;
use brick_runtime::{Backend, BrickError, BrickLayer, ComputeBrick, ComputeOp, OpError, Work};
use common::spin;

const US: Duration = Duration::from_micros(1);

/// Adds `by`, taking `time` for it.
struct Add {
    name: &'static str,
    by: f32,
    time: Duration,
}

impl ComputeOp for Add {
    type Input = Vec<f32>;
    type Output = Vec<f32>;

    fn name(&self) -> &str {
        self.name
    }
    fn backends(&self) -> &[Backend] {
        &[Backend::Avx2, Backend::Primary]
    }
    fn execute(&self, input: &Vec<f32>, _: Backend) -> Result<Vec<f32>, OpError> {
        if input.is_empty() {
            return Err("nothing to add to".into());
        }
        spin(self.time);
        Ok(input.iter().map(|x| x + self.by).collect())
    }
    fn work(&self, input: &Vec<f32>) -> Work {
        Work {
            flops: input.len() as u64,
            tokens: 3,
            ..Work::default()
        }
    }
}

fn add(name: &'static str, by: f32) -> ComputeBrick<Add> {
    ComputeBrick::new(Add { name, by, time: US })
}

#[test]
fn verify_tells_each_assertion_apart() {
    let brick = add("verified", 1.0)
        .assert_finite()
        .assert_bounds(0.0, 10.0)
        .assert_equivalent(1e-3, |x| Ok(x.iter().map(|x| x + 1.0005).collect()))
        .assert_equivalent(1e-4, |x| Ok(x.iter().map(|x| x + 1.0005).collect()))
        .assert_that("as long as its input", |x: &Vec<f32>, y: &Vec<f32>| {
            x.len() == y.len()
        });
    let verification = brick.verify(&vec![1.0, 20.0]).unwrap();
    assert!(!verification.passed());
    let verdicts: Vec<_> = verification
        .assertions
        .iter()
        .map(|a| (a.assertion.as_str(), a.fault.is_none()))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("output: finite", true),
            ("output: range(0, 10)", false),
            ("output: equivalent to its baseline within 0.001", true),
            ("output: equivalent to its baseline within 0.0001", false),
            ("ensures as long as its input", true),
        ]
    );
    let Some(Fault::Number {
        index: 1,
        value: 21.0,
        rule,
        ..
    }) = &verification.assertions[1].fault
    else {
        panic!("{verification:?}")
    };
    assert_eq!(rule, "range(0, 10)");
    assert!(matches!(
        &verification.assertions[3].fault,
        Some(Fault::Number { index: 0, .. })
    ));
    assert!(
        brick.verify(&vec![1.0]).unwrap().assertions[1]
            .fault
            .is_none()
    );
    assert!(matches!(brick.verify(&vec![]), Err(BrickError::Op { .. })));
    assert!(matches!(
        add("unverified", 1.0).verify(&vec![1.0]),
        Err(BrickError::NoAssertions { .. })
    ));
}

/// A baseline of another length is no baseline.
#[test]
fn equivalence_is_of_all_numbers() {
    let brick = add("lengths", 0.0).assert_equivalent(1.0, |x| Ok(x[1..].to_vec()));
    let verification = brick.verify(&vec![1.0, 1.0]).unwrap();
    assert!(matches!(
        &verification.assertions[0].fault,
        Some(Fault::Number { index: 1, .. })
    ));
    let nan = add("nan", f32::NAN).assert_equivalent(1.0, |x| Ok(vec![f32::NAN; x.len()]));
    assert!(!nan.verify(&vec![1.0]).unwrap().passed());
}

#[test]
fn a_backend_the_operation_lacks_is_refused() {
    let error = add("backend", 1.0).on(Backend::Cuda).unwrap_err();
    assert_eq!(
        error.to_string(),
        "brick `backend` has no backend Cuda; it has [Avx2, Primary]"
    );
    assert_eq!(add("backend", 1.0).backend(), Backend::Avx2);
    assert_eq!(
        add("backend", 1.0).on(Backend::Primary).unwrap().backend(),
        Backend::Primary
    );
}

#[test]
fn a_layer_runs_in_order_and_its_budget_is_the_sum() {
    let slow = ComputeBrick::new(Add {
        name: "layer slow",
        by: 2.0,
        time: US * 500,
    });
    let layer = BrickLayer::new(add("layer first", 1.0).budget(US * 10))
        .then(slow.budget(US * 20))
        .then(add("layer last", 3.0).budget(US * 30))
        .at(5);
    assert_eq!(layer.budget(), Some(US * 60));
    assert_eq!(
        layer.bricks().collect::<Vec<_>>(),
        ["layer first", "layer slow", "layer last"]
    );
    let run = layer.run(&vec![0.0]).unwrap();
    assert_eq!(run.output, [6.0]);
    let error = layer.run(&vec![]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "brick `layer first` failed: nothing to add to"
    );
    assert_eq!(layer.then(add("no budget", 0.0)).budget(), None);
    if cfg!(feature = "visualization") {
        assert_eq!(run.bottleneck().unwrap().brick, "layer slow");
        assert_eq!(run.budget_met(), Some(false));
    } else {
        assert_eq!((run.bottleneck(), run.budget_met()), (None, None));
    }
}

#[cfg(feature = "visualization")]
mod recorded {
    use super::*;
    use common::stats;

    #[test]
    fn a_run_is_a_call_with_its_work() {
        let brick = add("recorded", 1.0).budget(Duration::from_nanos(1));
        for _ in 0..10 {
            let run = brick.run(&vec![0.0; 8]).unwrap();
            assert_eq!(run.budget_met(), Some(false));
            assert!(run.elapsed_ns().value().unwrap() >= 1e3);
            let rate = run.tokens_per_s().value().unwrap();
            assert!((rate * run.elapsed.unwrap().as_secs_f64() - 3.0).abs() < 1e-9);
        }
        // Another brick of the same making is the same row; one with another budget is not.
        let again = ComputeBrick::new(Add {
            name: "recorded",
            by: 1.0,
            time: US,
        });
        assert_eq!(again.budget(US).run(&vec![0.0]).unwrap().output, [1.0]);
        let row = stats("recorded").unwrap();
        assert_eq!(
            (row.calls(), row.flops(), row.tokens(), row.over_budget()),
            (10, 80, 30, 10)
        );
        let info = row.info();
        assert_eq!(
            (info.category, info.crate_name, info.backend),
            ("Compute", "compute", Backend::Avx2)
        );
        assert!(info.file.ends_with("compute.rs"));
    }

    #[test]
    fn an_assertion_that_fails_is_an_error() {
        let brick = add("asserted", f32::INFINITY)
            .assert_no_nan()
            .assert_finite();
        let Err(BrickError::Assertion(violation)) = brick.run(&vec![1.0, f32::NEG_INFINITY]) else {
            panic!("inf - inf is NaN")
        };
        assert_eq!(violation.brick.name, "asserted");
        assert!(
            matches!(&violation.fault, Fault::Number { index: 1, rule, .. } if rule == "no_nan")
        );
        assert_eq!(stats("asserted").unwrap().checks().count, 1);
        let checks = stats("asserted").unwrap().info().checks;
        assert_eq!(
            checks.iter().collect::<Vec<_>>(),
            ["output: no_nan", "output: finite"]
        );
    }

    #[test]
    fn an_enforced_budget_is_an_error() {
        let brick = ComputeBrick::new(Add {
            name: "enforced",
            by: 0.0,
            time: US * 100,
        });
        let error = brick
            .budget(US * 50)
            .enforce_budget()
            .run(&vec![0.0])
            .unwrap_err();
        assert!(matches!(error, BrickError::Budget { elapsed, .. } if elapsed >= US * 100));
    }

    #[test]
    fn a_layer_is_a_layer_in_reports() {
        let layer = BrickLayer::new(add("in layer", 0.0)).at(6);
        assert_eq!(layer.run(&vec![0.0]).unwrap().output, [0.0]);
        let layers: Vec<_> = stats("in layer")
            .unwrap()
            .layers()
            .map(|l| (l.layer, l.time.count))
            .collect();
        assert_eq!(layers, [(6, 1)]);
    }
}

#[cfg(not(feature = "visualization"))]
#[test]
fn off_a_run_is_the_operation_alone() {
    let run = add("off", f32::NAN)
        .assert_finite()
        .run(&vec![1.0])
        .unwrap();
    assert!(run.output[0].is_nan());
    assert_eq!(run.elapsed, None);
    assert_eq!(
        run.elapsed_ns().provenance(),
        "unavailable: built without `visualization`"
    );
    let snapshot = BrickProfiler::global().snapshot();
    assert_eq!(
        snapshot.unavailable(),
        Some("built without `visualization`")
    );
    assert!(snapshot.bricks().is_empty());
}
