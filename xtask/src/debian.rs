//! Debian's packages: what a check needs is installed where that is allowed.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// Installs a package; says no where there is no `apt-get` or no right to use it.
pub fn install(package: &str) -> Result<bool> {
    let id = Command::new("id").arg("-u").output();
    let root = id.is_ok_and(|o| String::from_utf8_lossy(&o.stdout).trim() == "0");
    let apt = Command::new("apt-get").arg("--version").output().is_ok();
    if !(root && apt) {
        return Ok(false);
    }
    println!("== apt-get install {package}");
    let run = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        let status = command.args(arguments).stdout(Stdio::null()).status();
        status.with_context(|| format!("cannot run apt-get {}", arguments.join(" ")))
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    if run(&install)?.success() {
        return Ok(true);
    }
    // A new machine may not know its packages yet.
    run(&["update"])?;
    Ok(run(&install)?.success())
}
