//! `cargo xtask package`: the crates that are published, as crates.io would get them.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::run::{cargo, output, step};

/// What crates.io shows or searches, and cargo only warns about or does not ask for at all.
const FIELDS: [&str; 6] = [
    "description",
    "license",
    "readme",
    "documentation",
    "keywords",
    "categories",
];

/// What every package holds beside its manifest.
const FILES: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packs every crate that may be published and returns their names; with `verify`, builds each from its package alone.
pub fn run(verify: bool) -> Result<Vec<String>> {
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    // `publish = false` is an empty list of registries.
    let published = packages.iter().filter(|p| p["publish"].is_null());
    let mut names = Vec::new();
    for package in published {
        let name = package["name"].as_str().context("a package has a name")?;
        for field in FIELDS {
            let value = &package[field];
            let missing = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            ensure!(!missing, "{name}: Cargo.toml has no {field}");
        }
        let listed = output(&mut cargo(&[
            "package",
            "--list",
            "--allow-dirty",
            "--package",
            name,
        ]))?;
        for file in FILES {
            if !listed.lines().any(|line| line == file) {
                bail!("{name}: {file} is not in the package");
            }
        }
        names.push(name.to_owned());
    }
    ensure!(!names.is_empty(), "no crate may be published");
    let mut command = cargo(&["package", "--quiet", "--allow-dirty"]);
    for name in &names {
        command.args(["--package", name]);
    }
    if !verify {
        command.arg("--no-verify");
    }
    step(&mut command)?;
    let how = if verify { "built from" } else { "packed into" };
    println!("== package: {} {how} their packages", names.join(", "));
    Ok(names)
}

/// Cargo's folder for what it builds.
pub fn target() -> Result<PathBuf> {
    let folder = &metadata()?["target_directory"];
    Ok(folder.as_str().context("no target directory")?.into())
}

/// The folder of the packages.
pub fn folder() -> Result<PathBuf> {
    Ok(target()?.join("package"))
}

fn metadata() -> Result<Value> {
    let arguments = ["metadata", "--no-deps", "--format-version", "1"];
    let text = output(&mut cargo(&arguments))?;
    serde_json::from_str(&text).context("cargo metadata")
}
