//! Choosing among methods and hyperparameters by cross validation.
//!
//! ```
//! use ordercal::select::{Folds, choose};
//! use ordercal::{Dataset, Method, MsOdir, ScoreKind, Scores, Unwatched};
//! use ndarray::Array2;
//!
//! let logits = Array2::from_shape_fn((60, 3), |(row, class)| (row * (class + 7) % 11) as f32);
//! let labels: Vec<u32> = (0..60).map(|row| row % 3).collect();
//! let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &labels)?;
//!
//! let candidates: Vec<Method> = MsOdir::default().grid().into_iter().step_by(10).map(Method::from).collect();
//! let choice = choose(&candidates, &data, &Folds::new(60, 5, 1357)?, &Unwatched)?;
//! assert!(choice.scores.iter().all(|score| choice.score().nll <= score.nll));
//! let fitted = candidates[choice.best].fit(&data)?;
//! # let _ = fitted;
//! # Ok::<(), ordercal::Error>(())
//! ```

mod cross_validation;
mod search;

pub use crate::data::Folds;
pub use cross_validation::{Choice, Score, choose, cross_validated_nll};
pub use search::{Effort, Found, Ranked, Search, search, space};
