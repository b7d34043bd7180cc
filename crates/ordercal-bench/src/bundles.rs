//! Bundles of a folder, and labels drawn from probabilities.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use ordercal::ndarray::{Array2, ArrayView1};
use ordercal::{Dataset, Method, Rng};
use ordercal_io::{DataRef, LoadedData, load};

use crate::method;

/// Bundles and methods, as options of the command line.
#[derive(clap::Args)]
pub struct Selection {
    /// A folder of bundles with the splits `calib` and `test`
    dir: PathBuf,
    /// Only bundles whose name contains one of these, separated by commas
    #[arg(long, value_name = "A,B")]
    only: Option<String>,
    /// A key, or JSON with hyperparameters; may be given several times [default: auto and auto-free]
    #[arg(long = "method", value_name = "METHOD", value_parser = method::parse)]
    methods: Vec<Method>,
}

impl Selection {
    pub fn bundles(&self) -> Result<impl Iterator<Item = Result<Bundle>>> {
        let paths = bundles(&self.dir, self.only.as_deref())?;
        Ok(paths.into_iter().map(|path| Bundle::read(&path)))
    }

    pub fn methods(&self) -> Result<Vec<Method>> {
        if self.methods.is_empty() {
            return Ok(vec![
                Method::from_key("auto")?,
                Method::from_key("auto-free")?,
            ]);
        }
        Ok(self.methods.clone())
    }
}

/// The splits `calib` and `test` of a file.
pub struct Bundle {
    pub name: String,
    calib: LoadedData,
    test: LoadedData,
}

impl Bundle {
    pub fn read(path: &Path) -> Result<Self> {
        let name = path.file_stem().context("a bundle has a name")?;
        let file = DataRef::new(path);
        Ok(Self {
            name: name.to_string_lossy().into_owned(),
            calib: load(&file.clone().with_split("calib"), None)?,
            test: load(&file.with_split("test"), None)?,
        })
    }

    pub fn calib(&self) -> Result<Dataset<'_>> {
        Ok(self.calib.dataset()?)
    }

    pub fn test(&self) -> Result<Dataset<'_>> {
        Ok(self.test.dataset()?)
    }
}

/// The bundles of a folder, by name; only those whose name contains one of the words that commas separate.
pub fn bundles(dir: &Path, only: Option<&str>) -> Result<Vec<PathBuf>> {
    let mut bundles: Vec<PathBuf> = std::fs::read_dir(dir)
        .with_context(|| format!("cannot list {}", dir.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_>>()?;
    bundles.retain(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let wanted = |name: &str| only.is_none_or(|only| only.split(',').any(|o| name.contains(o)));
        path.extension().is_some_and(|e| e == "npz" || e == "p")
            && name.is_some_and(|name| wanted(&name))
    });
    bundles.sort();
    ensure!(!bundles.is_empty(), "no bundles in {}", dir.display());
    Ok(bundles)
}

/// A label for each row of probabilities.
pub fn draw_labels(probs: &Array2<f64>, rng: &mut Rng) -> Vec<u32> {
    let draw = |row: ArrayView1<'_, f64>| {
        let mut left = rng.uniform();
        let mut last = 0;
        for (class, &p) in row.iter().enumerate() {
            if p > 0.0 {
                last = class;
                if left < p {
                    break;
                }
                left -= p;
            }
        }
        last as u32
    };
    probs.rows().into_iter().map(draw).collect()
}
