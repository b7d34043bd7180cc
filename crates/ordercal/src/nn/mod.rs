//! Small fully connected networks, and how they are trained.
//!
//! Layers are matrix products ([`mlp`]), or, for small networks, sums over structures of arrays ([`transposed`]).

pub(crate) mod head;
pub(crate) mod input;
pub(crate) mod loss;
pub(crate) mod mlp;
pub(crate) mod train;
pub(crate) mod transposed;
mod transposed_head;
