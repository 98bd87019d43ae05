//! Annotated kernels.
