//! One program for all tests but [`mutations`](./mutations.rs), which has an allocator of its own: each would link
//! everything again.

mod common;
mod formats;
mod fuzz_corpus;
mod malformed;
mod models;
mod rows;
mod streaming;
mod usage;
