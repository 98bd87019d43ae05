//! Without hooks there is nothing to record, and it says so.
#![cfg(not(feature = "visualization"))]

use brick_runtime::BUILT_WITHOUT;
use brick_runtime::timeline::{Limits, Recording, RecordingError, span_scope};

#[test]
fn a_build_without_the_feature_says_so() {
    let _span = span_scope("nothing");
    let error = Recording::start(Limits::default()).unwrap_err();
    assert_eq!(error, RecordingError::BuiltWithout);
    assert_eq!(error.to_string(), BUILT_WITHOUT);
}
