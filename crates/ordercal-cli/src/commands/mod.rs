//! One file per command.

pub mod apply;
pub mod compare;
pub mod completions;
pub mod curve;
pub mod demo;
pub mod evaluate;
pub mod export;
pub mod fit;
pub mod fit_groups;
pub mod inspect;
pub mod man;
pub mod merge;
pub mod metrics;
pub mod monitor;
pub mod plot;
