//! `cargo xtask format`: every file, also those whose modules a macro declares, which `cargo fmt` does not find.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Fails if a file of the repository is not as rustfmt writes it; with `fix`, writes it so.
pub fn run(fix: bool) -> Result<()> {
    let mut files = Vec::new();
    collect(crate::root(), &mut files)?;
    let mut command = Command::new("rustfmt");
    command.args(["--edition", "2024"]);
    if !fix {
        command.arg("--check");
    }
    let status = command.args(files).status().context("cannot run rustfmt")?;
    if !status.success() {
        bail!("rustfmt would write it differently: cargo xtask format --fix");
    }
    Ok(())
}

/// All *.rs files below a folder, but for hidden folders and what was built.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = std::fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = name == "target" || name.to_string_lossy().starts_with('.');
        if entry.file_type()?.is_dir() && !skipped {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_found_and_nothing_that_was_built() {
        let mut files = Vec::new();
        collect(crate::root(), &mut files).unwrap();
        assert!(files.contains(&crate::root().join("xtask/src/format.rs")));
        assert!(files.contains(&crate::root().join("crates/ordercal/src/lib.rs")));
        let built = crate::root().join("target");
        assert!(files.iter().all(|file| !file.starts_with(&built)));
    }
}
