//! Results of single methods, each stored in a file as soon as it is computed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ordercal::compare::Measured;
use ordercal::metrics::{Metric, Reliability};
use ordercal::select::Found;
use ordercal_io::{SavedModel, write_atomically};
use ordercal_report::{MethodResult, UNCALIBRATED};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::input::at;

/// A float that survives a round trip through JSON, also if it is not finite.
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

/// The result of one method on one dataset, with everything that the report needs. It holds no times, so
/// the same run gives the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredResult {
    /// Everything that the result depends on.
    pub key: Value,
    pub method: String,
    /// Whether it promises to keep the order.
    pub order_preserving: bool,
    /// The number of changed predictions.
    pub changed_predictions: u64,
    pub chosen: Value,
    /// Its metrics on the test rows.
    pub metrics: BTreeMap<Metric, Exact>,
    /// The same on bootstrap resamples.
    pub resampled: BTreeMap<Metric, Vec<Exact>>,
    /// The bins of its reliability diagram.
    pub reliability: Reliability,
    /// The seconds of the fit, which are stored in another file.
    #[serde(skip)]
    pub seconds: Option<f64>,
}

impl StoredResult {
    /// A result to store.
    pub fn new(key: Value, found: &Found, measured: &Measured) -> Self {
        let result = MethodResult::new(found, measured, None);
        let exact = |values: Vec<f64>| values.into_iter().map(Exact).collect();
        Self {
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
            reliability: measured.reliability.clone(),
            seconds: None,
        }
    }

    /// The result as part of a comparison.
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

/// Dataset → method → seconds.
type Timings = BTreeMap<String, BTreeMap<String, f64>>;

/// The folder of a comparison. A result is written after its model and its seconds, so a stored result is
/// always complete.
pub struct ResultStore {
    folder: PathBuf,
    timings: Timings,
    resume: bool,
}

impl ResultStore {
    /// Opens the folder, or creates it.
    pub fn open(folder: &Path, resume: bool) -> Result<Self> {
        for inner in ["parts", "models", "figures"] {
            let inner = folder.join(inner);
            fs::create_dir_all(&inner).map_err(|e| at(&inner, e))?;
            remove_unfinished(&inner)?;
        }
        remove_unfinished(folder)?;
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

    /// The folder of the models.
    pub fn models(&self) -> PathBuf {
        self.folder.join("models")
    }

    fn timings_path(&self) -> PathBuf {
        self.folder.join("timings.json")
    }

    fn result_path(&self, dataset: &str, method: &str) -> PathBuf {
        self.folder
            .join("parts")
            .join(format!("{dataset}-{method}.json"))
    }

    /// The result of an earlier run, if there is one with the same key.
    pub fn find(&self, dataset: &str, method: &str, key: &Value) -> Result<Option<StoredResult>> {
        let path = self.result_path(dataset, method);
        let model = model_path(&self.models(), dataset, method);
        if !self.resume || !path.exists() || (method != UNCALIBRATED && !model.exists()) {
            return Ok(None);
        }
        let text = fs::read_to_string(&path).map_err(|e| at(&path, e))?;
        // A file of another version may not parse; its result is computed again.
        let Ok(mut result) = serde_json::from_str::<StoredResult>(&text) else {
            return Ok(None);
        };
        result.seconds = self
            .timings
            .get(dataset)
            .and_then(|t| t.get(method))
            .copied();
        Ok((result.key == *key).then_some(result))
    }

    /// Stores a result.
    pub fn keep(
        &mut self,
        dataset: &str,
        result: &StoredResult,
        model: Option<&SavedModel>,
        seconds: f64,
    ) -> Result<()> {
        if let Some(model) = model {
            model.save(&model_path(&self.models(), dataset, &result.method))?;
        }
        let timings = self.timings.entry(dataset.to_owned()).or_default();
        timings.insert(result.method.clone(), seconds);
        let text = serde_json::to_string_pretty(&self.timings)?;
        write_atomically(&self.timings_path(), text.as_bytes())?;
        let text = serde_json::to_string(result).context("a result cannot be written as JSON")?;
        write_atomically(&self.result_path(dataset, &result.method), text.as_bytes())?;
        Ok(())
    }
}

/// Removes the temporary files `.NAME.PID-COUNT.tmp` of a run that was killed while writing.
fn remove_unfinished(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|e| at(folder, e))? {
        let path = entry.map_err(|e| at(folder, e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with('.') && name.ends_with(".tmp") {
            fs::remove_file(&path).map_err(|e| at(&path, e))?;
        }
    }
    Ok(())
}

/// The file of the model of a method on a dataset.
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
