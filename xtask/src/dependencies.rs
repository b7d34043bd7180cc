//! `cargo xtask dependencies`: licences and duplicates by the rules of `deny.toml`, from what cargo itself knows.
//!
//! cargo-deny (`cargo xtask deny`) knows more, above all advisories, but takes minutes to build.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::{cargo, output, step};

/// Checks every package that this platform builds.
pub fn run() -> Result<()> {
    let rules = Rules::read()?;
    let problems = rules.problems(&packages()?);
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// Runs cargo-deny; it is built below `target/` first.
pub fn deny() -> Result<()> {
    let folder = crate::root().join("target/cargo-deny");
    step(
        cargo(&["install", "--quiet", "--locked", "cargo-deny", "--root"])
            .arg(&folder)
            // A profile for a program that runs for a second.
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_RELEASE_LTO", "off"),
    )?;
    step(
        Command::new(folder.join("bin/cargo-deny"))
            .arg("check")
            .current_dir(crate::root()),
    )
}

/// A package from outside.
#[derive(Clone)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// The oldest compiler it says it compiles with.
    rust_version: Option<String>,
}

/// The packages that are built here. `cargo metadata` alone would list those of other platforms and features, too.
fn packages() -> Result<Vec<Package>> {
    let tree = ["tree", "--workspace", "--edges", "normal,build,dev"];
    let tree = output(cargo(&tree).args(["--prefix", "none", "--format", "{p}"]))?;
    let built: BTreeSet<(&str, &str)> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect();
    let metadata = output(&mut cargo(&["metadata", "--format-version", "1"]))?;
    let metadata: Value = serde_json::from_str(&metadata).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let outside = packages.iter().filter(|p| !p["source"].is_null());
    let known: Option<Vec<Package>> = outside
        .map(|p| {
            Some(Package {
                name: text(&p["name"])?,
                version: text(&p["version"])?,
                license: text(&p["license"]),
                rust_version: text(&p["rust_version"]),
            })
        })
        .collect();
    let mut known = known.context("a package has no name")?;
    known.retain(|p| built.contains(&(&p.name, &p.version)));
    Ok(known)
}

/// The part of `deny.toml` that can be checked without cargo-deny.
struct Rules {
    licenses: BTreeSet<String>,
    duplicates: BTreeSet<String>,
    /// Our own `rust-version`.
    rust_version: Vec<u32>,
}

/// Major and minor version, which compare as versions do.
fn numbers(version: &str) -> Vec<u32> {
    let parts = version.split('.').take(2);
    parts.map_while(|part| part.parse().ok()).collect()
}

impl Rules {
    fn read() -> Result<Self> {
        let text = std::fs::read_to_string(crate::root().join("deny.toml"))?;
        Self::parse(&text, env!("CARGO_PKG_RUST_VERSION")).context("deny.toml")
    }

    fn parse(text: &str, rust_version: &str) -> Result<Self> {
        let rules: toml::Table = text.parse()?;
        let list = |section: &str, key: &str| {
            let values = rules.get(section).and_then(|s| s.get(key)?.as_array());
            values.with_context(|| format!("[{section}] has no list `{key}`"))
        };
        let licenses = list("licenses", "allow")?;
        let licenses = licenses.iter().filter_map(|v| v.as_str());
        // `NAME@VERSION`: one of the versions is the exception.
        let duplicates = list("bans", "skip")?.iter();
        let duplicates = duplicates.filter_map(|v| v.get("crate")?.as_str()?.split('@').next());
        Ok(Self {
            licenses: licenses.map(str::to_owned).collect(),
            duplicates: duplicates.map(str::to_owned).collect(),
            rust_version: numbers(rust_version),
        })
    }

    fn problems(&self, packages: &[Package]) -> Vec<String> {
        let mut problems = Vec::new();
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in packages {
            let Package {
                name,
                version,
                license,
                rust_version,
            } = package;
            versions.entry(name).or_default().insert(version);
            match license {
                None => problems.push(format!("{name} {version} names no licence")),
                Some(license) if !self.allows(license) => {
                    problems.push(format!("{name} {version} is licensed under {license}"));
                }
                Some(_) => {}
            }
            if let Some(needed) = rust_version
                && numbers(needed) > self.rust_version
            {
                problems.push(format!("{name} {version} needs Rust {needed}"));
            }
        }
        for (name, versions) in &versions {
            if versions.len() > 1 && !self.duplicates.contains(*name) {
                let versions: Vec<&str> = versions.iter().copied().collect();
                problems.push(format!("{name} is there as {}", versions.join(" and ")));
            }
        }
        for name in &self.duplicates {
            if versions.get(name.as_str()).is_none_or(|v| v.len() < 2) {
                problems.push(format!("{name} is no duplicate any more: see deny.toml"));
            }
        }
        problems
    }

    /// Whether an SPDX expression can be met by the licences that are allowed.
    fn allows(&self, expression: &str) -> bool {
        // Old manifests write a slash for OR.
        let spaced = expression.replace('/', " OR ");
        let spaced = spaced.replace('(', " ( ").replace(')', " ) ");
        let tokens: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = &tokens[..];
        self.any(&mut rest) && rest.is_empty()
    }

    fn any(&self, rest: &mut &[&str]) -> bool {
        let mut met = self.all(rest);
        while let ["OR", tail @ ..] = *rest {
            *rest = tail;
            met |= self.all(rest);
        }
        met
    }

    fn all(&self, rest: &mut &[&str]) -> bool {
        let mut met = self.one(rest);
        while let ["AND", tail @ ..] = *rest {
            *rest = tail;
            met &= self.one(rest);
        }
        met
    }

    fn one(&self, rest: &mut &[&str]) -> bool {
        match *rest {
            ["(", tail @ ..] => {
                *rest = tail;
                let met = self.any(rest);
                if let [")", tail @ ..] = *rest {
                    *rest = tail;
                }
                met
            }
            [license, "WITH", exception, tail @ ..] => {
                *rest = tail;
                self.licenses
                    .contains(&format!("{license} WITH {exception}"))
            }
            [license, tail @ ..] => {
                *rest = tail;
                self.licenses.contains(*license)
            }
            [] => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        let text = "[licenses]\nallow = ['MIT', 'Zlib']\n[bans]\nskip = [{ crate = 'old@1', reason = 'r' }]";
        Rules::parse(text, "1.89").unwrap()
    }

    #[test]
    fn expressions_are_met_by_what_is_allowed() {
        let rules = rules();
        for met in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "MIT AND (Zlib OR GPL-3.0)",
        ] {
            assert!(rules.allows(met), "{met}");
        }
        for unmet in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR Zlib) AND GPL-3.0",
            "MIT MIT",
        ] {
            assert!(!rules.allows(unmet), "{unmet}");
        }
        assert!(!rules.allows("Zlib WITH LLVM-exception"));
    }

    #[test]
    fn duplicates_are_listed_and_no_others() {
        let package = |name: &str, version: &str| Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some("MIT".to_owned()),
            rust_version: Some("1.89.0".to_owned()),
        };
        let old = [package("old", "1.0.0"), package("old", "2.0.0")];
        assert!(rules().problems(&old).is_empty());
        let newer = Package {
            rust_version: Some("1.90".to_owned()),
            ..package("old", "3.0.0")
        };
        let all = [&old[..], &[newer]].concat();
        assert_eq!(rules().problems(&all), ["old 3.0.0 needs Rust 1.90"]);
        let new = [package("new", "1.0.0"), package("new", "2.0.0")];
        assert_eq!(
            rules().problems(&new),
            [
                "new is there as 1.0.0 and 2.0.0",
                "old is no duplicate any more: see deny.toml"
            ]
        );
    }
}
