//! The fitted model as a file.

use std::path::Path;

use ordercal::{FitReport, Method, Model, NetworkModel, NetworkParts, TsModel};
use ordercal_io::{Error, Result, write_atomically};
use serde::{Deserialize, Serialize};

/// A fitted model with all that its file holds.
pub struct SavedModel {
    /// What was fitted.
    pub model: Model,
    /// The method with its hyperparameters.
    pub method: Method,
    /// How the fit went.
    pub report: FitReport,
    /// The names of the classes, if they are known.
    pub class_names: Option<Vec<String>>,
}

#[derive(Serialize, Deserialize)]
struct File {
    method: Method,
    report: FitReport,
    class_names: Option<Vec<String>>,
    ts: Option<(usize, f64)>,
    network: Option<(NetworkParts, Vec<f32>)>,
}

impl SavedModel {
    /// Writes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let file = File {
            method: self.method.clone(),
            report: self.report.clone(),
            class_names: self.class_names.clone(),
            ts: match &self.model {
                Model::Ts(ts) => Some((self.model.classes(), ts.inverse_temperature())),
                _ => None,
            },
            network: match &self.model {
                Model::Network(network) => {
                    let parts = network.to_parts();
                    Some((parts.clone(), parts.params))
                }
                _ => None,
            },
        };
        let bytes = serde_json::to_vec(&file).expect("plain data");
        write_atomically(path, &bytes)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// If it cannot be read or is no model.
    pub fn load(path: &Path) -> Result<Self> {
        let damaged = |message: String| Error::Damaged {
            path: path.to_path_buf(),
            format: ordercal_io::Format::Safetensors,
            message,
        };
        let bytes = std::fs::read(path).map_err(|e| damaged(e.to_string()))?;
        let file: File = serde_json::from_slice(&bytes).map_err(|e| damaged(e.to_string()))?;
        let model = match (file.ts, file.network) {
            (Some((classes, beta)), _) => Model::from(TsModel::new(classes, beta)),
            (_, Some((parts, params))) => {
                let parts = NetworkParts { params, ..parts };
                NetworkModel::from_parts(parts)
                    .map_err(|e| damaged(e.to_string()))?
                    .into()
            }
            _ => return Err(damaged("no parameters".into())),
        };
        Ok(Self {
            model,
            method: file.method,
            report: file.report,
            class_names: file.class_names,
        })
    }
}
