//! x
mod rng; mod math; pub mod metrics; pub mod rank; mod real; mod data; mod error;
pub use data::*; pub use error::*; pub use real::Real;
