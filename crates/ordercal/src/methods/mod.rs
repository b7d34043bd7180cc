//! The calibration methods, one file each in folders by family, and the fitting code that they share.
//!
//! `table.rs` lists them; [`crate::Method`] is generated from that table.

pub(crate) mod binary;
mod calibrator;
mod check;
pub(crate) mod kernel;
pub(crate) mod likelihood;
mod linear;
pub(crate) mod networks;
mod points;
mod regression;
pub(crate) mod table;
pub(crate) mod temperature;
pub(crate) mod zeros;

pub(crate) use calibrator::Describe;
pub use calibrator::{Calibrator, Estimate, FitReport, Fitted};
pub(crate) use check::{check_non_negative, check_positive};
pub use network::{oi::OrderInvariant, op::OrderPreserving, unconstrained::NoConstraint};
pub use networks::{Family, Network};
pub use one_vs_rest::{histogram::BinLayout, isotonic::BlockLines, platt::LogisticRegression};
pub use regression::Targets;
pub use scaling::svs::Structured;
pub use temperature::SPREAD_BOUNDS;

/// Declares the module of every method in the table.
macro_rules! declare_modules {
    (
        $($family:ident { $($file:ident::$type:ident $key:literal $promise:ident;)* })*
        + combine { $($combined:tt)* }
    ) => {
        $(pub(crate) mod $family {
            $(pub(crate) mod $file;)*
        })*

        /// The types of the methods in the table.
        pub(crate) mod listed {
            $($(pub use super::$family::$file::$type;)*)*
        }
    };
}

table::for_each_method!(declare_modules);
