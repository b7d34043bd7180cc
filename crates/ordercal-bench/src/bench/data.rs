//! The data of both sides: generated logits whose true map is known, or bundles from files.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ndarray::Array2;
use ordercal::models::UncalibratedModel;
use ordercal::{Dataset, Model, ScoreKind};
use ordercal_io::{DataRef, OutputSpec, ScoreWriter, load};
use ordercal_testkit::rows::overconfident_data;

/// A data set in memory, and the folder in which the peers find it.
pub struct Set {
    pub data: Dataset<'static>,
    /// The softmax of its scores.
    pub probs: Array2<f32>,
    pub folder: PathBuf,
}

impl Set {
    /// Overconfident logits: labels follow softmax(logits / 2), so the true map is a temperature of 2.
    pub fn generate((rows, classes): (usize, usize), work: &Path) -> Result<Self> {
        let folder = work.join(format!("{rows}x{classes}"));
        Self::new(overconfident_data(rows, classes, 1), folder)
    }

    /// The split `calib` of a bundle.
    pub fn load(bundle: &Path, work: &Path) -> Result<Self> {
        let name = bundle.file_stem().context("a bundle has a name")?;
        let source = DataRef::new(bundle).with_split("calib");
        let loaded = load(&source, None)?;
        let data = loaded.dataset()?;
        let scores = data.scores().clone().into_owned();
        Self::new(Dataset::new(scores, data.labels())?, work.join(name))
    }

    /// Rows and classes.
    pub fn size(&self) -> (usize, usize) {
        (self.data.rows(), self.data.classes())
    }

    fn new(data: Dataset<'static>, folder: PathBuf) -> Result<Self> {
        let model = Model::from(UncalibratedModel::new(data.classes())?);
        let probs = model.apply::<f32>(data.scores(), ScoreKind::Probs)?;
        std::fs::create_dir_all(&folder).context("cannot make a folder for the data")?;
        let set = Self {
            data,
            probs,
            folder,
        };
        set.write()?;
        Ok(set)
    }

    fn write(&self) -> Result<()> {
        let scores = self.data.scores();
        let spec = OutputSpec::new(ScoreKind::Logits, scores.classes()).with_rows(scores.rows());
        let mut writer = ScoreWriter::create(&self.folder.join("logits.npy"), spec)?;
        writer.write_f32(scores.view())?;
        writer.finish()?;
        let labels = self.data.labels().iter().flat_map(|v| v.to_le_bytes());
        let labels: Vec<u8> = labels.collect();
        std::fs::write(self.folder.join("labels.u32"), labels).context("cannot write labels")
    }
}
