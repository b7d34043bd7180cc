//! The names that most programs use: `use ordercal::prelude::*;`

pub use crate::{
    Calibrator, Dataset, Error, Fitted, Method, Model, ScoreKind, Scores, Transform, Unwatched,
    Watch,
};
