//! Every way out of a function is one call; unwinding is a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use brick_runtime::brick;

use crate::{BrickId, calls, stats};

#[brick(id = Exits)]
fn exits(x: i32) -> Result<i32, String> {
    if x == 0 {
        return Ok(0);
    }
    let positive = u8::try_from(x).map_err(|error| error.to_string())?;
    assert!(positive < 100, "too much");
    Ok(x)
}

#[test]
fn returns_and_question_marks_are_calls_and_panics_are_panics() {
    assert_eq!((exits(0), exits(7)), (Ok(0), Ok(7)));
    assert!(exits(-1).is_err());
    assert!(catch_unwind(|| exits(100)).is_err());
    if let Some(stats) = stats(BrickId::Exits) {
        assert_eq!((stats.calls(), stats.panics()), (4, 1));
    }
}

#[brick(id = ExitsNever)]
fn never() -> ! {
    panic!("as it should")
}

#[test]
fn a_function_that_never_returns_panics() {
    assert!(catch_unwind(|| never()).is_err());
    assert_eq!(
        stats(BrickId::ExitsNever).map_or(1, |stats| stats.panics()),
        1
    );
}

#[brick(id = ExitsRecursive)]
fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        n
    } else {
        fibonacci(n - 1) + fibonacci(n - 2)
    }
}

#[test]
fn recursion_counts_every_call() {
    assert_eq!(fibonacci(7), 13);
    assert_eq!(calls(BrickId::ExitsRecursive, 41), 41);
}

struct Noisy<'a>(&'a Mutex<Vec<&'static str>>, &'static str);

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(self.1);
    }
}

#[brick(id = ExitsDrops)]
fn annotated(log: &Mutex<Vec<&'static str>>, _by_value: Noisy<'_>) -> usize {
    let _local = Noisy(log, "local");
    log.lock().unwrap().len()
}

fn bare(log: &Mutex<Vec<&'static str>>, _by_value: Noisy<'_>) -> usize {
    let _local = Noisy(log, "local");
    log.lock().unwrap().len()
}

#[test]
fn drops_keep_their_order() {
    let (ours, theirs) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    annotated(&ours, Noisy(&ours, "parameter"));
    bare(&theirs, Noisy(&theirs, "parameter"));
    assert_eq!(*ours.lock().unwrap(), *theirs.lock().unwrap());
}

#[brick(id = ExitsUnwindDrops)]
fn unwinds(log: &Mutex<Vec<&'static str>>, _by_value: Noisy<'_>) {
    let _local = Noisy(log, "local");
    panic!("on purpose");
}

#[test]
fn a_panic_drops_what_there_is() {
    let log = Mutex::new(Vec::new());
    assert!(catch_unwind(AssertUnwindSafe(|| unwinds(&log, Noisy(&log, "parameter")))).is_err());
    assert_eq!(*log.lock().unwrap(), ["local", "parameter"]);
}
