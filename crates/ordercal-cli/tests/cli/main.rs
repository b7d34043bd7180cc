//! The program as a user runs it: arguments in; stdout, stderr, exit code and files out.

// Results that are promised to be the same are compared as they are.
#![allow(clippy::float_cmp)]

mod bad_inputs;
mod commands;
mod compare;
mod curve;
mod export;
mod files;
mod groups;
mod harness;
mod interrupted;
mod monitor;
mod names;
mod old_files;
mod outputs;
mod pipes;
mod plot;
mod round_trips;
mod soft_labels;
mod warnings;
