//! What is built from other methods and models: projections onto the order, and `auto`.
//!
//! Nothing here knows [`crate::Method`]: members are any [`Calibrator`](crate::methods::Calibrator).

mod auto;
mod keep_order;

pub use auto::{Auto, AutoEffort, AutoFree, Automatic, Free, Kept, Promise};
pub use keep_order::{KeepOrder, keep_order};
