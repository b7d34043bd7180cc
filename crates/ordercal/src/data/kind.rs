//! What the numbers of a score matrix are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What the numbers in a score matrix are. The caller states it; it is never guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreKind {
    /// The inputs of the softmax, which does not depend on a common shift of a row.
    #[default]
    Logits,
    /// Logarithms of probabilities; each row's exponentials sum to 1.
    LogProbs,
    /// Probabilities; each row sums to 1.
    Probs,
}

impl ScoreKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Logits, Self::LogProbs, Self::Probs];

    /// The name in options, files and [`FromStr`]: `logits`, `log-probs` or `probs`.
    pub fn key(self) -> &'static str {
        match self {
            Self::Logits => "logits",
            Self::LogProbs => "log-probs",
            Self::Probs => "probs",
        }
    }
}

impl FromStr for ScoreKind {
    type Err = Error;

    /// The kind with the given [`key`](Self::key).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`], which lists the keys.
    fn from_str(key: &str) -> Result<Self> {
        let known = Self::ALL.into_iter().find(|kind| kind.key() == key);
        known.ok_or_else(|| Error::invalid("kind", key, "logits, log-probs or probs"))
    }
}

/// In words, for messages: `log-probabilities` where [`key`](ScoreKind::key) is `log-probs`.
impl fmt::Display for ScoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Logits => "logits",
            Self::LogProbs => "log-probabilities",
            Self::Probs => "probabilities",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back_as_serde_writes_them() {
        for kind in ScoreKind::ALL {
            assert_eq!(kind.key().parse::<ScoreKind>().unwrap(), kind);
            let json = serde_json::to_string(&kind).unwrap();
            assert_eq!(json, format!("\"{}\"", kind.key()));
        }
    }

    #[test]
    fn an_unknown_key_is_told_the_known_ones() {
        let message = "probabilities"
            .parse::<ScoreKind>()
            .unwrap_err()
            .to_string();
        for kind in ScoreKind::ALL {
            assert!(message.contains(kind.key()), "{message}");
        }
    }
}
