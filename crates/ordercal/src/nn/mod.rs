//! The small fully connected networks inside the function families, and how they are trained.

pub(crate) mod head;
pub(crate) mod input;
pub(crate) mod mlp;
mod narrow;
pub(crate) mod train;
pub(crate) mod transposed;
