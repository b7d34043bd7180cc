//! What can go wrong.

/// What this crate's functions return.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong while a document is made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A picture would have no pixels, or far too many.
    #[error("a picture cannot be drawn at the scale {scale}")]
    Scale {
        /// The scale.
        scale: f64,
    },
    /// A figure could not be drawn.
    #[error("the figure cannot be drawn: {problem}")]
    Draw {
        /// What the drawing library says.
        problem: String,
    },
    /// A comparison lacks something.
    #[error("a comparison needs {what}")]
    Incomplete {
        /// What is not there.
        what: String,
    },
    /// There is nothing to show.
    #[error("there is nothing to draw")]
    Empty,
}
