//! The pages that hold Rust: `cargo test --doc` runs their blocks. `cargo xtask docs` checks that none is missing.

#[doc = include_str!("../../../README.md")]
mod readme {}

#[doc = include_str!("../../../docs/start.md")]
mod start {}

#[doc = include_str!("../../../docs/own-calibrator.md")]
mod own_calibrator {}
