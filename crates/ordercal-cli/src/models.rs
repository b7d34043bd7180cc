//! Models from files, with distinct names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ordercal::Model;
use ordercal_io::SavedModel;

/// Loads models and names them by their files, or by their paths where file names repeat.
pub fn load_models(paths: &[PathBuf]) -> Result<Vec<(String, SavedModel)>> {
    let stem = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or(path.as_os_str());
        stem.to_string_lossy().into_owned()
    };
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for path in paths {
        *count.entry(stem(path)).or_default() += 1;
    }
    let named = paths.iter().map(|path| {
        let name = match stem(path) {
            name if count[&name] > 1 => path.display().to_string(),
            name => name,
        };
        Ok((name, SavedModel::load(path)?))
    });
    named.collect()
}

/// Refuses a model that was fitted for another number of classes.
pub fn check_classes(model: (&Path, &Model), data: (&Path, usize)) -> Result<()> {
    let (have, need) = (data.1, model.1.classes());
    if have != need {
        bail!(
            "{}: the model is for {need} classes, but {} has {have}",
            model.0.display(),
            data.0.display(),
        );
    }
    Ok(())
}
