//! Errors.

/// A result whose error is [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Errors of making documents.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A PNG would have no pixels, or too many.
    #[error(
        "the scale {scale:?} is out of range: it must be above 0, and the PNG have at most 64 million pixels"
    )]
    Scale {
        /// The scale.
        scale: f64,
    },
    /// A figure could not be drawn.
    #[error("the figure cannot be drawn: {problem}")]
    Draw {
        /// The message of the renderer.
        problem: String,
    },
    /// A comparison is incomplete.
    #[error("a comparison needs {what}")]
    Incomplete {
        /// What is missing.
        what: String,
    },
    /// There is nothing to show.
    #[error("there is nothing to draw")]
    Empty,
}
