//! One result, kept in a file of its own as soon as it is there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ordercal::compare::{self, Measures};
use ordercal::metrics::{Metric, Reliability};
use ordercal::select::Found;
use ordercal_io::{LoadedData, SavedModel, write_atomically};
use ordercal_report::{MethodResult, UNCALIBRATED};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::input::at;

/// A float that comes back from JSON as it was, also if it is infinite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exact(pub f64);

impl Serialize for Exact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(&self.0.to_string())
        }
    }
}

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(f64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(value) => Ok(Self(value)),
            Either::Text(text) => text.parse().map(Self).map_err(serde::de::Error::custom),
        }
    }
}

/// What one method did on one dataset, with all that the report needs of it. Nothing in it was measured
/// with a clock: the same run gives the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// All that it depends on.
    pub key: Value,
    /// The method's key.
    pub method: String,
    /// Whether it promises to keep the order.
    pub order_preserving: bool,
    /// How many predictions it changed.
    pub changed_predictions: u64,
    /// The hyperparameters.
    pub chosen: Value,
    /// Its metrics on the test rows.
    pub metrics: BTreeMap<Metric, Exact>,
    /// The same on resamples.
    pub resampled: BTreeMap<Metric, Vec<Exact>>,
    /// The bins of its reliability diagram.
    pub reliability: Reliability,
    /// How long it took, which is kept elsewhere.
    #[serde(skip)]
    pub seconds: Option<f64>,
}

impl Part {
    /// As a comparison takes it.
    pub fn result(&self) -> MethodResult {
        let resampled = self
            .resampled
            .iter()
            .map(|(metric, values)| (*metric, values.iter().map(|v| v.0).collect()));
        MethodResult {
            method: self.method.clone(),
            metrics: self
                .metrics
                .iter()
                .map(|(metric, v)| (*metric, v.0))
                .collect(),
            resampled: resampled.collect(),
            order_preserving: self.order_preserving,
            changed_predictions: self.changed_predictions,
            fit_seconds: self.seconds,
            chosen: self.chosen.clone(),
        }
    }
}

/// Measures a fitted model on the test rows.
pub fn measure(plan: &Measures, test: &LoadedData, found: &Found, key: Value) -> Result<Part> {
    let measured = compare::measure(&found.fitted.model, &test.dataset()?, plan);
    let measured =
        measured.map_err(|e| at(test.path(), format_args!("{}: {e}", found.method.key())))?;
    let result = MethodResult::new(found, &measured, None);
    let exact = |values: Vec<f64>| values.into_iter().map(Exact).collect();
    Ok(Part {
        key,
        method: result.method,
        order_preserving: result.order_preserving,
        changed_predictions: result.changed_predictions,
        chosen: result.chosen,
        metrics: (result.metrics.into_iter())
            .map(|(m, v)| (m, Exact(v)))
            .collect(),
        resampled: (result.resampled.into_iter())
            .map(|(m, v)| (m, exact(v)))
            .collect(),
        reliability: measured.reliability,
        seconds: None,
    })
}

/// Dataset → method → seconds.
type Timings = BTreeMap<String, BTreeMap<String, f64>>;

/// The folder of a comparison. A part is there only when everything that belongs to it is: the model and the
/// seconds are written before it.
pub struct Store {
    folder: PathBuf,
    timings: Timings,
    resume: bool,
}

impl Store {
    /// Makes the folder if it is not there.
    pub fn open(folder: &Path, resume: bool) -> Result<Self> {
        for inner in ["parts", "models", "figures"] {
            let inner = folder.join(inner);
            fs::create_dir_all(&inner).map_err(|e| at(&inner, e))?;
            sweep(&inner)?;
        }
        sweep(folder)?;
        let mut store = Self {
            folder: folder.to_path_buf(),
            timings: Timings::new(),
            resume,
        };
        let timings = store.timings_path();
        if resume && timings.exists() {
            let text = fs::read_to_string(&timings).map_err(|e| at(&timings, e))?;
            store.timings = serde_json::from_str(&text).map_err(|e| at(&timings, e))?;
        }
        Ok(store)
    }

    /// Where the models are.
    pub fn models(&self) -> PathBuf {
        self.folder.join("models")
    }

    fn timings_path(&self) -> PathBuf {
        self.folder.join("timings.json")
    }

    fn part_path(&self, dataset: &str, method: &str) -> PathBuf {
        self.folder
            .join("parts")
            .join(format!("{dataset}-{method}.json"))
    }

    /// A result of an earlier run, if it is there and about the same things.
    pub fn find(&self, dataset: &str, method: &str, key: &Value) -> Result<Option<Part>> {
        let path = self.part_path(dataset, method);
        let model = model_path(&self.models(), dataset, method);
        if !self.resume || !path.exists() || (method != UNCALIBRATED && !model.exists()) {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(|e| at(&path, e))?;
        // Another version may have written it in another form; then it counts as not there.
        let Ok(mut part) = serde_json::from_str::<Part>(&text) else {
            return Ok(None);
        };
        part.seconds = self
            .timings
            .get(dataset)
            .and_then(|t| t.get(method))
            .copied();
        Ok((part.key == *key).then_some(part))
    }

    /// Keeps a result.
    pub fn keep(
        &mut self,
        dataset: &str,
        part: &Part,
        model: Option<&SavedModel>,
        seconds: f64,
    ) -> Result<()> {
        if let Some(model) = model {
            model.save(&model_path(&self.models(), dataset, &part.method))?;
        }
        let timings = self.timings.entry(dataset.to_owned()).or_default();
        timings.insert(part.method.clone(), seconds);
        let text = serde_json::to_string_pretty(&self.timings)?;
        write_atomically(&self.timings_path(), text.as_bytes())?;
        let text = serde_json::to_string(part).context("a result cannot be written as JSON")?;
        write_atomically(&self.part_path(dataset, &part.method), text.as_bytes())?;
        Ok(())
    }
}

/// Removes what a run that was killed in the middle of a file has left: `.NAME.PID-COUNT.tmp`.
fn sweep(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| at(folder, e))? {
        let path = entry.map_err(|e| at(folder, e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            fs::remove_file(&path).map_err(|e| at(&path, e))?;
        }
    }
    Ok(())
}

/// Where the model of a method on a dataset is.
pub fn model_path(models: &Path, dataset: &str, method: &str) -> PathBuf {
    models.join(format!("{dataset}-{method}.safetensors"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_come_back_as_they_were() {
        for value in [0.1, -1.0 / 3.0, 1e-300, f64::INFINITY, f64::NEG_INFINITY] {
            let text = serde_json::to_string(&Exact(value)).unwrap();
            let back: Exact = serde_json::from_str(&text).unwrap();
            assert_eq!(back.0.to_bits(), value.to_bits(), "{text}");
        }
        let text = serde_json::to_string(&Exact(f64::NAN)).unwrap();
        let back: Exact = serde_json::from_str(&text).unwrap();
        assert!(back.0.is_nan());
    }
}
