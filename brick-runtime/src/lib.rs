//! What annotated code calls.
