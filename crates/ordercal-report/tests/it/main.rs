//! One program for all tests: each would link everything again.

#[cfg(feature = "png")]
mod figures;
mod paper_tables;
