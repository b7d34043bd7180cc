//! One program for all tests: each would link everything again.

mod conformance;
mod data;
mod decide;
mod fits;
mod grouped;
mod layers;
mod methods;
mod metrics;
mod one_vs_rest;
mod order;
mod parts;
mod select;
mod simd_levels;
mod soft_labels;
mod theorems;
