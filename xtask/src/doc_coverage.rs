//! `cargo xtask doc-coverage`: which public items have an example.
//!
//! It reads rustdoc's JSON, which the stable toolchain has behind `RUSTC_BOOTSTRAP`. Rustdoc has a count of its own
//! (`--show-coverage`), but that leaves out what a crate exports from its private modules. Missing documentation is an
//! error of the compiler already.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::package;
use crate::run::{cargo, output, step};

/// The libraries, each with the fewest items and methods, in per cent, that an example shows: what was reached once is
/// kept.
const CRATES: [(&str, f64, f64); 4] = [
    ("ordercal", 100.0, 65.0),
    ("ordercal-io", 36.0, 18.0),
    ("ordercal-onnx", 25.0, 0.0),
    ("ordercal-report", 2.0, 0.0),
];

/// The environment variable that makes this program a wrapper of the rustdoc that it names.
pub const REAL_RUSTDOC: &str = "ORDERCAL_RUSTDOC";

/// Runs rustdoc with its unstable options. With `RUSTC_BOOTSTRAP` in the environment of cargo itself, every build script
/// that looks at it would run again, and all that depends on it would be compiled again.
pub fn as_rustdoc(program: OsString) -> Result<()> {
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1));
    step(command.env("RUSTC_BOOTSTRAP", "1"))
}

/// The rustdoc of this toolchain.
fn sibling_rustdoc() -> Result<PathBuf> {
    let root = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let name = format!("bin/rustdoc{}", std::env::consts::EXE_SUFFIX);
    Ok(PathBuf::from(root.trim()).join(name))
}

/// Prints the counts of every crate, and names what is missing where they are too low. A type, a trait or a function has
/// an example of its own; a method is shown in its own or in that of its type.
pub fn run() -> Result<()> {
    // The packages and features of the step "docs", whose compiled dependencies serve here, too.
    step(
        cargo(&[
            "doc",
            "--quiet",
            "--workspace",
            "--all-features",
            "--no-deps",
        ])
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json")
        .env("RUSTDOC", std::env::current_exe()?)
        .env(REAL_RUSTDOC, sibling_rustdoc()?),
    )?;
    println!("crate             items with an example   methods in an example");
    let mut complaints = Vec::new();
    for (name, least_items, least_methods) in CRATES {
        let file = package::target()?.join(format!("doc/{}.json", name.replace('-', "_")));
        let text = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let found = PublicItems::of(&serde_json::from_str(&text).context("rustdoc's JSON")?);
        let (items, missing) = (found.items.len(), found.without_example());
        let (methods, unseen) = (found.methods.len(), found.never_shown());
        let share = |all: usize, missing: usize| match all {
            0 => 100.0,
            _ => 100.0 * (all - missing) as f64 / all as f64,
        };
        let shares = [share(items, missing.len()), share(methods, unseen.len())];
        println!(
            "{name:<17} {:>5} of {items:<4} ({:.0}%) {:>12} of {methods:<4} ({:.0}%)",
            items - missing.len(),
            shares[0],
            methods - unseen.len(),
            shares[1],
        );
        if shares[0] < least_items {
            let missing = missing.join(", ");
            complaints.push(format!(
                "{name}: below {least_items}%, no example for {missing}"
            ));
        }
        if shares[1] < least_methods {
            let unseen = unseen.join(", ");
            complaints.push(format!(
                "{name}: below {least_methods}%, no example has {unseen}"
            ));
        }
    }
    ensure!(complaints.is_empty(), "{}", complaints.join("\n"));
    Ok(())
}

/// The public types, traits and free functions of a crate, and the methods of its types and traits.
#[derive(Default)]
struct PublicItems {
    /// By rustdoc's number: the name, and the code of the examples.
    items: BTreeMap<u64, (String, String)>,
    /// The name, the number of its type or trait, and the code of its own examples.
    methods: Vec<(String, u64, String)>,
}

impl PublicItems {
    fn of(rustdoc: &Value) -> Self {
        let mut found = Self::default();
        found.visit(&rustdoc["index"], &rustdoc["root"]);
        found
    }

    fn visit(&mut self, index: &Value, id: &Value) {
        let item = &index[id.to_string()];
        let Some((kind, inner)) = item["inner"]
            .as_object()
            .and_then(|inner| inner.iter().next())
        else {
            return;
        };
        let hidden = item["attrs"].to_string().contains("hidden");
        let children = inner["items"].as_array().into_iter().flatten();
        match kind.as_str() {
            _ if hidden || item["crate_id"] != 0 => {}
            // `pub use module::*` names what is inside.
            "use" => match &index[inner["id"].to_string()]["inner"]["module"]["items"] {
                Value::Array(all) => all.iter().for_each(|id| self.visit(index, id)),
                _ => self.visit(index, &inner["id"]),
            },
            "module" => children.for_each(|id| self.visit(index, id)),
            "struct" | "enum" | "trait" | "function" => {
                let id = id.as_u64().unwrap_or_default();
                let name = item["name"].as_str().unwrap_or_default();
                if self
                    .items
                    .insert(id, (name.to_owned(), examples(item)))
                    .is_some()
                {
                    return;
                }
                children.for_each(|method| self.method(&index[method.to_string()], id));
                let impls = inner["impls"].as_array().into_iter().flatten();
                let impls = impls.map(|id| &index[id.to_string()]["inner"]["impl"]);
                for block in impls.filter(|block| block["trait"].is_null()) {
                    for method in block["items"].as_array().into_iter().flatten() {
                        let method = &index[method.to_string()];
                        if method["visibility"] == "public" {
                            self.method(method, id);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn method(&mut self, item: &Value, of: u64) {
        let hidden = item["attrs"].to_string().contains("hidden");
        if let (false, Some(_), Some(name)) =
            (hidden, item["inner"].get("function"), item["name"].as_str())
        {
            self.methods.push((name.to_owned(), of, examples(item)));
        }
    }

    fn without_example(&self) -> Vec<&str> {
        let missing = self.items.values().filter(|(_, code)| code.is_empty());
        missing.map(|(name, _)| name.as_str()).collect()
    }

    fn never_shown(&self) -> Vec<String> {
        let shown = |name: &str, code: &str| {
            let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            words.any(|word| word == name)
        };
        let unseen = self.methods.iter().filter_map(|(name, of, own)| {
            let (of, code) = &self.items[of];
            (own.is_empty() && !shown(name, code)).then(|| format!("{of}::{name}"))
        });
        unseen.collect()
    }
}

/// The code between the fences of an item's documentation.
fn examples(item: &Value) -> String {
    let docs = item["docs"].as_str().unwrap_or_default();
    docs.split("```").skip(1).step_by(2).collect()
}
