//! Shared test code of ordercal: generators of ordinary and hostile rows, a check of the order that is independent of the
//! library's own sorting, and the conformance suite for methods.

pub mod conformance;
pub mod hammer;
pub mod models;
#[cfg(doctest)]
mod pages;
pub mod promise;
pub mod rows;
