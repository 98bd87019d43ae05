//! Runs rustc over every file. Messages are those of the toolchain in use: after an update of
//! Rust, read them again and overwrite.

#[test]
fn mistakes_get_their_messages() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*.rs");
    // What is only built with `visualization`, or reported differently without.
    #[cfg(feature = "visualization")]
    cases.compile_fail("fail-on/*.rs");
    cases.pass("pass/*.rs");
}
