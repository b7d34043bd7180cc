//! Debian's packages: what a check needs is installed where that is allowed.

use std::process::{Command, Stdio};

/// Tries to install a package, and returns whether it is there now.
pub fn install(package: &str) -> bool {
    let run = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        let silent = command.args(arguments).stdout(Stdio::null());
        let status = silent.stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    // A new machine may not know its packages yet. Without the rights of root, both fail at once.
    run(&install) || (run(&["update"]) && run(&install))
}
