//! Fitted models as safetensors files.
//!
//! The tensors are the model's arrays. The header's metadata has the rest: `format`, `version` and `classes` as
//! text, and as JSON `method` (with its hyperparameters), `model` (all settings that are not arrays), `report` and,
//! if they are known, `class_names`. Keys are sorted and there is no time stamp, so that the same fit gives the
//! same bytes.

use std::path::Path;

use ::safetensors::SafeTensors;
use ::safetensors::tensor::{Dtype, TensorView};
use ordercal::models::{ModelParts, TensorValues};
use ordercal::{FitReport, Method, Model};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::atomic::write_atomically;
use crate::error::{Error, Result, clean};
use crate::safetensors::Safetensors;

/// The version of the format that this code writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 1;

/// The value of `format` by which a model is recognised.
const FORMAT: &str = "ordercal-model";

/// A fitted model, the method that fitted it, the report of the fit and the names of the classes.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores};
/// use ordercal_io::SavedModel;
///
/// let logits = array![[4.0_f32, 1.0], [0.5, 3.0], [2.0, 1.0]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits)?, &[0, 1, 1])?;
/// let method = Method::from_key("ts")?;
/// let fitted = method.fit(&data)?;
/// let saved = SavedModel::new(method, fitted);
///
/// let path = tempfile::tempdir()?.keep().join("model.safetensors");
/// saved.save(&path)?;
/// assert_eq!(SavedModel::load(&path)?, saved);
/// # std::fs::remove_dir_all(path.parent().unwrap())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SavedModel {
    /// The model.
    pub model: Model,
    /// How it was fitted.
    pub method: Method,
    /// What the fit did.
    pub report: FitReport,
    /// The names of the classes, if they are known.
    pub class_names: Option<Vec<String>>,
}

impl SavedModel {
    /// A model as a fit returns it.
    pub fn new(method: Method, fitted: ordercal::Fitted) -> Self {
        Self {
            model: fitted.model,
            method,
            report: fitted.report,
            class_names: None,
        }
    }

    /// Adds the names of the classes.
    #[must_use]
    pub fn with_class_names(self, class_names: Option<Vec<String>>) -> Self {
        Self {
            class_names,
            ..self
        }
    }

    /// Writes the model to a file, atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let bytes = self.to_bytes().map_err(|source| Error::Data {
            path: path.to_path_buf(),
            split: None,
            source,
        })?;
        write_atomically(path, &bytes)
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// If the model is one of the user's own, which cannot be stored.
    pub fn to_bytes(&self) -> ordercal::Result<Vec<u8>> {
        let parts = self.model.to_parts()?;
        let mut metadata = Map::new();
        let mut say = |key: &str, value: String| metadata.insert(key.to_owned(), value.into());
        say("format", FORMAT.to_owned());
        say("version", FORMAT_VERSION.to_string());
        say("classes", self.model.classes().to_string());
        say("method", to_json(&self.method));
        say("model", parts.settings.to_string());
        say("report", to_json(&self.report));
        if let Some(names) = &self.class_names {
            say("class_names", to_json(names));
        }
        let mut header = Map::new();
        header.insert("__metadata__".to_owned(), metadata.into());
        let mut data = Vec::new();
        for (name, values) in parts.tensors {
            let start = data.len();
            let (dtype, count) = append(&values, &mut data);
            let offsets = [start, data.len()];
            let info = json!({"dtype": dtype, "shape": [count], "data_offsets": offsets});
            header.insert(name, info);
        }
        let mut header = to_json(&header).into_bytes();
        // The format aligns the data to 8 bytes.
        header.resize(header.len().next_multiple_of(8), b' ');
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(data);
        Ok(bytes)
    }

    /// Reads a model and checks it.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, holds no model, or one from a newer version.
    pub fn load(path: &Path) -> Result<Self> {
        // This checks the sizes in the header against the size of the file before memory is allocated.
        Safetensors::open(path)?;
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", e))?;
        Self::from_bytes(&bytes, path)
    }

    /// Reads a model from the bytes of a file; `path` is its name in messages.
    ///
    /// # Errors
    /// If the bytes are damaged, hold no model, or one from a newer version.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        let damaged = |message: String| Error::DamagedModel {
            path: path.to_path_buf(),
            message: clean(&message),
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(e.to_string()))?;
        let tensors = SafeTensors::deserialize(bytes).map_err(|e| damaged(e.to_string()))?;
        let not_a_model = || Error::NotAModel {
            path: path.to_path_buf(),
        };
        let metadata = header.metadata().as_ref().ok_or_else(not_a_model)?;
        if metadata.get("format").map(String::as_str) != Some(FORMAT) {
            return Err(not_a_model());
        }
        let get = |key: &str| {
            let missing = || damaged(format!("its header has no `{key}`"));
            metadata.get(key).ok_or_else(missing)
        };
        let version = get("version")?;
        let version: u32 = version
            .parse()
            .map_err(|_| damaged(format!("version `{version}`")))?;
        if version > FORMAT_VERSION {
            return Err(Error::NewerModel {
                path: path.to_path_buf(),
                version,
                known: FORMAT_VERSION,
            });
        }
        let settings = from_json("model", get("model")?).map_err(damaged)?;
        let mut arrays = Vec::new();
        for (name, view) in tensors.tensors() {
            let values =
                values_of(&view).ok_or_else(|| damaged(format!("the type of `{name}`")))?;
            arrays.push((name, values));
        }
        let parts = ModelParts {
            settings,
            tensors: arrays,
        };
        let model = Model::from_parts(parts).map_err(|e| damaged(e.to_string()))?;
        if get("classes")? != &model.classes().to_string() {
            return Err(damaged(
                "its parts are for different numbers of classes".to_owned(),
            ));
        }
        let class_names: Option<Vec<String>> = match metadata.get("class_names") {
            Some(names) => Some(from_json("class_names", names).map_err(damaged)?),
            None => None,
        };
        if class_names
            .as_ref()
            .is_some_and(|names| names.len() != model.classes())
        {
            return Err(damaged("it does not have one name per class".to_owned()));
        }
        Ok(Self {
            model,
            method: from_json("method", get("method")?).map_err(damaged)?,
            report: from_json("report", get("report")?).map_err(damaged)?,
            class_names,
        })
    }
}

fn to_json(value: &impl Serialize) -> String {
    // Through a `Value`, whose maps are sorted by key.
    let value: Value = serde_json::to_value(value).expect("plain data has a JSON form");
    value.to_string()
}

fn from_json<T: DeserializeOwned>(key: &str, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|e| format!("`{key}` in its header: {e}"))
}

/// Appends the bytes of an array; returns its type and length.
fn append(values: &TensorValues, data: &mut Vec<u8>) -> (&'static str, usize) {
    match values {
        TensorValues::F32(values) => {
            data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            ("F32", values.len())
        }
        TensorValues::F64(values) => {
            data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            ("F64", values.len())
        }
        TensorValues::U32(values) => {
            data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            ("U32", values.len())
        }
        other => unreachable!("a kind of array without a form in files: {other:?}"),
    }
}

fn values_of(view: &TensorView<'_>) -> Option<TensorValues> {
    let data = view.data();
    Some(match view.dtype() {
        Dtype::F32 => TensorValues::F32(decode(data, f32::from_le_bytes)),
        Dtype::F64 => TensorValues::F64(decode(data, f64::from_le_bytes)),
        Dtype::U32 => TensorValues::U32(decode(data, u32::from_le_bytes)),
        _ => return None,
    })
}

fn decode<T, const SIZE: usize>(data: &[u8], one: fn([u8; SIZE]) -> T) -> Vec<T> {
    data.as_chunks().0.iter().map(|b| one(*b)).collect()
}
