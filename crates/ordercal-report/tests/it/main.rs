//! One program for all tests: each would link everything again.

#[cfg(feature = "png")]
mod figures;
mod hostile_names;
mod paper_tables;
