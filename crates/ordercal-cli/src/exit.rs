//! How a run ends, as the shell sees it.

use std::process::{ExitCode, Termination};

/// The exit status of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done, and every threshold held.
    Done,
    /// Done, but a threshold that was asked for failed.
    ThresholdFailed,
    /// Bad usage or bad input, described by a message on stderr.
    BadInput,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Done => 0,
            Self::ThresholdFailed => 1,
            Self::BadInput => 2,
        })
    }
}
