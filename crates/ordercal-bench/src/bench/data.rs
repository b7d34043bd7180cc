//! The data of both sides: generated logits whose true map is known.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ndarray::Array2;
use ordercal::models::UncalibratedModel;
use ordercal::{Dataset, Model, ScoreKind};
use ordercal_io::{OutputSpec, ScoreWriter};
use ordercal_testkit::rows::{curved_data, overconfident_data};

/// What generated labels follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// softmax(logits / 2), so the true map is a temperature of 2.
    Temperature,
    /// A map that no temperature comes near to; there are as many held-out rows as rows to learn from.
    Curved,
}

/// A data set in memory, and the folder in which the peers find it.
pub struct Set {
    pub data: Dataset<'static>,
    /// The softmax of its scores.
    pub probs: Array2<f32>,
    /// Other rows of the same source, for the NLL of what was learned; in the folder below `held_out`.
    pub held_out: Option<Dataset<'static>>,
    pub folder: PathBuf,
    truth: Truth,
}

impl Set {
    pub fn generate((rows, classes): (usize, usize), truth: Truth, work: &Path) -> Result<Self> {
        let (name, data, held_out) = match truth {
            Truth::Temperature => ("", overconfident_data(rows, classes, 1), None),
            Truth::Curved => (
                "-curved",
                curved_data(rows, classes, 1),
                Some(curved_data(rows, classes, 2)),
            ),
        };
        let folder = work.join(format!("{rows}x{classes}{name}"));
        let model = Model::from(UncalibratedModel::new(classes)?);
        let probs = model.apply::<f32>(data.scores(), ScoreKind::Probs)?;
        write(&data, &folder)?;
        if let Some(held_out) = &held_out {
            write(held_out, &folder.join("held_out"))?;
        }
        Ok(Self {
            data,
            probs,
            held_out,
            folder,
            truth,
        })
    }

    /// Whether this is what [`generate`](Self::generate) would make.
    pub fn is(&self, size: (usize, usize), truth: Truth) -> bool {
        (self.data.rows(), self.data.classes()) == size && self.truth == truth
    }
}

fn write(data: &Dataset<'_>, folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder).context("cannot make a folder for the data")?;
    let scores = data.scores();
    let spec = OutputSpec::new(ScoreKind::Logits, scores.classes()).with_rows(scores.rows());
    let mut writer = ScoreWriter::create(&folder.join("logits.npy"), spec)?;
    writer.write_f32(scores.view())?;
    writer.finish()?;
    std::fs::write(folder.join("labels.npy"), npy(data.labels())).context("cannot write labels")
}

/// Labels as numpy writes them: whole numbers have no writer, because the tool writes none.
fn npy(labels: &[u32]) -> Vec<u8> {
    let shape = format!(
        "{{'descr': '<u4', 'fortran_order': False, 'shape': ({},), }}",
        labels.len()
    );
    // Magic and version are 8 bytes, the length 2; the header ends with a line feed at a multiple of 64.
    let length = (shape.len() + 11).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{shape:<width$}\n", width = length - 1).bytes());
    bytes.extend(labels.iter().flat_map(|label| label.to_le_bytes()));
    bytes
}
