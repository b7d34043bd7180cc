//! The warnings, and what each says.

use std::fmt;

use super::LEAST_ROWS;
use crate::data::ScoreKind;

/// Something that deserves a second look.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Warning {
    /// Every row of the logits is a probability distribution.
    LookLikeProbabilities,
    /// Every logit is between 0 and 1.
    WithinUnitInterval,
    /// The accuracy is below that of guessing.
    BelowChance {
        /// The share of rows whose largest score is the label's.
        accuracy: f64,
        /// 1/K.
        chance: f64,
        /// What would have to be added to every label, and the accuracy then, if that is better than guessing.
        shifted: Option<(i8, f64)>,
    },
    /// Some classes are never the label.
    ClassesWithoutRows {
        /// Which; the first few, by name if they have names.
        first: Vec<String>,
        /// How many.
        missing: usize,
        /// K.
        classes: usize,
    },
    /// So few rows that chance dominates.
    TooFewRows {
        /// N.
        rows: usize,
    },
    /// Fewer than 10 rows per class.
    FewRows {
        /// N.
        rows: usize,
        /// K.
        classes: usize,
    },
    /// The rows of an evaluation are those of the fit.
    SameRows,
    /// The scores are of another kind than those that the model was fitted to.
    OtherKind {
        /// What the model was fitted to.
        fitted: ScoreKind,
        /// What the scores are.
        found: ScoreKind,
    },
    /// A column or array that looks like labels or weights and is not read.
    Ignored {
        /// Its name.
        name: String,
    },
    /// A fit after which the NLL is what it was.
    ChangesNothing {
        /// The NLL.
        nll: f64,
    },
    /// Keeping every prediction costs much.
    HighPriceOfOrder {
        /// The share of the NLL on held-out rows.
        share: f64,
    },
    /// A model that does not promise to keep the ranking of every row.
    MayChangePredictions,
    /// A model whose NLL on its own calibration rows is above the uncalibrated one.
    WorseThanUncalibrated,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LookLikeProbabilities => f.write_str(
                "the logits look like probabilities (every row is within [0, 1] and sums to 1); if they are, say so: \
                 --kind probs, or kind=\"probs\" in Python",
            ),
            Self::WithinUnitInterval => f.write_str(
                "every logit is between 0 and 1, as the outputs of sigmoids are; if they are such, give \
                 log(p / (1 - p)) instead",
            ),
            Self::BelowChance {
                accuracy,
                chance,
                shifted,
            } => {
                let percent = |share: f64| format!("{:.1}%", 100.0 * share);
                let (accuracy, chance) = (percent(*accuracy), percent(*chance));
                write!(f, "the accuracy is {accuracy}, below the {chance} of guessing")?;
                match shifted {
                    Some((by, then)) => write!(
                        f,
                        ", and {} with {by:+} added to every label: are the labels shifted by one?",
                        percent(*then)
                    ),
                    None => f.write_str(
                        ": are the labels shifted by one, or the columns in another order?",
                    ),
                }
            }
            Self::ClassesWithoutRows {
                first,
                missing,
                classes,
            } => {
                if *missing > first.len() {
                    return write!(f, "{missing} of {classes} classes are never the label");
                }
                let (word, verb) = if *missing == 1 {
                    ("class", "is")
                } else {
                    ("classes", "are")
                };
                write!(f, "{word} {} {verb} never the label", first.join(", "))
            }
            Self::TooFewRows { rows } => {
                let word = if *rows == 1 { "row" } else { "rows" };
                write!(
                    f,
                    "only {rows} {word}: below {LEAST_ROWS}, what is learned or measured is mostly chance"
                )
            }
            Self::FewRows { rows, classes } => write!(
                f,
                "only {rows} rows for {classes} classes: prefer a method with few parameters, such as ts"
            ),
            Self::SameRows => f.write_str(
                "the model was fitted on these very rows, so its metrics look better than they are; evaluate it on \
                 other rows",
            ),
            Self::OtherKind { fitted, found } => write!(
                f,
                "the model was fitted to {fitted}, but these are {found}; what was learned from the one need not hold \
                 for the other"
            ),
            Self::Ignored { name } => write!(
                f,
                "`{name}` is not read: weights are called `weight` or `weights`, and labels `label` or `labels`"
            ),
            Self::ChangesNothing { nll } => write!(
                f,
                "the fit changed nothing: the NLL stays {nll:.4}; the scores may be calibrated already"
            ),
            Self::HighPriceOfOrder { share } => write!(
                f,
                "keeping every prediction costs {:.0}% of the NLL: many predictions are wrong in a way that the labels \
                 show; auto-free may change them",
                100.0 * share
            ),
            Self::MayChangePredictions => {
                f.write_str("it may change predictions; use KEY+order for a method that cannot")
            }
            Self::WorseThanUncalibrated => {
                f.write_str("the NLL on the calibration rows is higher than before the fit")
            }
        }
    }
}
