//! Methods built from other methods: the projection onto the order of the scores, and `auto`.
//!
//! They combine any [`Calibrator`](crate::methods::Calibrator) and do not depend on [`crate::Method`].

mod auto;
mod keep_order;

pub use auto::{Auto, AutoEffort, AutoFree, Automatic};
pub use keep_order::{KeepOrder, keep_order};
