//! Development commands: `cargo xtask COMMAND`.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod npz;
mod quality;

use anyhow::{Result, bail};
use ordercal::Method;
use std::path::Path;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["quality", dir] => quality::run(Path::new(dir), None, &Method::all()),
        ["quality", dir, reference] => {
            quality::run(Path::new(dir), Some(Path::new(reference)), &Method::all())
        }
        ["try", dir, reference, methods @ ..] => {
            let methods: Vec<Method> = methods
                .iter()
                .map(|m| serde_json::from_str(m))
                .collect::<Result<_, _>>()?;
            quality::run(Path::new(dir), Some(Path::new(reference)), &methods)
        }
        _ => bail!("usage: cargo xtask quality DIR [REFERENCE]"),
    }
}
