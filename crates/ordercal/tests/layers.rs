//! Imports go one way: a module imports only from modules before it in a list.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules of the crate; each may import from those before it.
const LAYERS: [&str; 26] = [
    "words",
    "error",
    "memory",
    "rng",
    "watch",
    "math",
    "real",
    "rank",
    "data",
    "optim",
    "nn",
    "models",
    "methods",
    "combine",
    "registry",
    "metrics",
    "monitor",
    "decide",
    "select",
    "grouped",
    "decompose",
    "compare",
    "curve",
    "diagnose",
    "kernels",
    "prelude",
];

#[test]
fn imports_go_one_way() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    list(&source, &mut files);
    assert!(files.len() > 50, "{files:?}");
    let mut wrong = Vec::new();
    for file in files {
        let place = file.strip_prefix(&source).expect("a path below src");
        let module = place.components().next().expect("a path component");
        let module = module.as_os_str().to_str().expect("a UTF-8 name");
        let module = module.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let layer = layer(module).unwrap_or_else(|| panic!("{module} is not in the list"));
        let text = fs::read_to_string(&file).expect("a source file");
        // Unit tests may import from any module.
        let code = text.split("#[cfg(test)]").next().expect("a first part");
        for used in code.lines().filter_map(imported) {
            if self::layer(used).is_none_or(|below| below > layer) {
                wrong.push(format!("{}: crate::{used}", place.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The module that a line imports from.
fn imported(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let path = line.strip_prefix("use crate::")?;
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let name = &path[..end.unwrap_or(path.len())];
    // A group, or a type of the crate's root, has no module name.
    (!name.is_empty() && name.chars().all(|c| c.is_lowercase() || c == '_')).then_some(name)
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|known| *known == module)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}
