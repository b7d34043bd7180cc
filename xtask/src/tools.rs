//! Programs from crates.io that some commands need: installed below `target/`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::package;
use crate::run::{cargo, output, skip, step};

const ADVISORIES: &str = "https://github.com/RustSec/advisory-db";

/// Runs cargo-deny with the rules of `deny.toml`.
pub fn deny() -> Result<()> {
    let program = install("cargo-deny")?;
    let check = |what: &[&str]| {
        let mut command = Command::new(&program);
        step(command.arg("check").args(what).current_dir(crate::root()))
    };
    check(&["bans", "licenses", "sources"])?;
    let mut remote = Command::new("git");
    if output(remote.args(["ls-remote", ADVISORIES, "HEAD"])).is_err() {
        skip(
            "deny",
            1,
            "check of advisories",
            "github.com does not answer",
        );
        return Ok(());
    }
    check(&["advisories"])
}

/// Installs a program unless it is there already, and returns its path.
pub fn install(name: &str) -> Result<PathBuf> {
    let folder = package::target()?.join("tools");
    let program = folder.join("bin").join(name);
    if program.exists() {
        return Ok(program);
    }
    step(
        cargo(&["install", "--quiet", "--locked", name, "--root"])
            .arg(&folder)
            // A profile for programs that run for a second.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off"),
    )?;
    Ok(program)
}
