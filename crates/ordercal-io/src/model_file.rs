//! Fitted models as safetensors files.
//!
//! The tensors are the model's arrays. The header's metadata has the rest: `format`, `version`, `classes` and `checksum`
//! as text, and as JSON `method` (with its hyperparameters), `model` (all settings that are not arrays), `report` and,
//! if they are known, `kind` (of the scores it was fitted to), `class_names`, `class_type` (what the names are, if not
//! text) and `data` (a hash of the rows it was fitted to). Keys are sorted and there is no time stamp, so that the same
//! fit gives the same bytes.
//!
//! The checksum is the SHA-256 of the whole file with zeros in the checksum's own place. Version 1 of the format
//! had neither checksum nor kind; its files are still read.

use std::collections::HashMap;
use std::path::Path;

use ::safetensors::SafeTensors;
use ::safetensors::tensor::{Dtype, TensorView};
use ordercal::models::{ModelParts, TensorValues};
use ordercal::{Fingerprint, FitReport, Method, Model, ScoreKind, Scores};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::atomic::write_atomically;
use crate::error::{Error, Result, clean};
use crate::safetensors::Safetensors;

/// The version of the format that this code writes, and the newest it reads.
pub const FORMAT_VERSION: u32 = 2;

/// The first version that has a checksum.
const CHECKED_VERSION: u32 = 2;

/// Hexadecimal digits of a checksum.
const DIGITS: usize = 64;

/// What stands before the digits in the header.
const CHECKSUM: &[u8] = b"\"checksum\":\"";

/// The value of `format` by which a model is recognised.
const FORMAT: &str = "ordercal-model";

/// What class names are where they came from; in a file they are text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClassType {
    /// Text.
    #[default]
    Text,
    /// Whole numbers: `20` is not `"20"`.
    Integer,
    /// Numbers with a decimal point.
    Float,
    /// `True` and `False`.
    Boolean,
}

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
    /// What the names are.
    pub class_type: ClassType,
    /// What the scores were that it was fitted to; `None` in older files.
    pub kind: Option<ScoreKind>,
    /// A hash of the rows that it was fitted to; `None` in older files.
    pub data: Option<Fingerprint>,
}

impl SavedModel {
    /// A model as a fit returns it.
    pub fn new(method: Method, fitted: ordercal::Fitted) -> Self {
        Self {
            model: fitted.model,
            method,
            report: fitted.report,
            class_names: None,
            class_type: ClassType::Text,
            kind: None,
            data: None,
        }
    }

    /// Adds a hash of the rows, by which an evaluation on the same rows is noticed.
    #[must_use]
    pub fn with_data(self, data: Fingerprint) -> Self {
        Self {
            data: Some(data),
            ..self
        }
    }

    /// Adds what the scores were.
    #[must_use]
    pub fn with_kind(self, kind: ScoreKind) -> Self {
        Self {
            kind: Some(kind),
            ..self
        }
    }

    /// Adds what the names of the classes are.
    #[must_use]
    pub fn with_class_type(self, class_type: ClassType) -> Self {
        Self { class_type, ..self }
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
        let mut metadata = vec![
            ("format", FORMAT.to_owned()),
            ("version", FORMAT_VERSION.to_string()),
            ("classes", self.model.classes().to_string()),
            ("method", to_json(&self.method)),
            ("model", parts.settings.to_string()),
            ("report", to_json(&self.report)),
        ];
        if let Some(names) = &self.class_names {
            metadata.push(("class_names", to_json(names)));
            if self.class_type != ClassType::Text {
                metadata.push(("class_type", to_json(&self.class_type)));
            }
        }
        if let Some(kind) = self.kind {
            metadata.push(("kind", to_json(&kind)));
        }
        if let Some(data) = self.data {
            metadata.push(("data", data.to_string()));
        }
        let tensors = parts.tensors.into_iter().map(|(name, values)| {
            let mut data = Vec::new();
            let (dtype, count) = append(&values, &mut data);
            (name, dtype, count, data)
        });
        Ok(assemble(metadata, tensors))
    }

    /// Reads a model and checks it.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, holds no model, or one from a newer version.
    pub fn load(path: &Path) -> Result<Self> {
        // This checks the sizes in the header against the size of the file before memory is allocated.
        Safetensors::open(path).map_err(|error| match error {
            // Any other file seems to begin with a header of absurd length.
            Error::Malformed { path, .. } => Error::NotAModel { path },
            error => error,
        })?;
        let bytes = crate::data_ref::read_all(path)?;
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
        let (metadata, tensors) = open(bytes, path, FORMAT, FORMAT_VERSION)?;
        let get = |key: &str| {
            let missing = || damaged(format!("its header has no `{key}`"));
            metadata.get(key).ok_or_else(missing)
        };
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
        if !gives_numbers(&model) {
            return Err(damaged(
                "its parameters give results that are no numbers; fit it again".to_owned(),
            ));
        }
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
        let class_type = match metadata.get("class_type") {
            Some(text) => from_json("class_type", text).map_err(damaged)?,
            None => ClassType::Text,
        };
        let kind = match metadata.get("kind") {
            Some(text) => Some(from_json("kind", text).map_err(damaged)?),
            None => None,
        };
        let data = match metadata.get("data") {
            Some(text) => Some(text.parse().map_err(|e| damaged(format!("{e}")))?),
            None => None,
        };
        Ok(Self {
            model,
            data,
            method: from_json("method", get("method")?).map_err(damaged)?,
            report: from_json("report", get("report")?).map_err(damaged)?,
            class_names,
            class_type,
            kind,
        })
    }
}

/// The bytes of a file: tensors, each with its type and the number of its values, and metadata with a checksum.
pub(crate) fn assemble(
    metadata: impl IntoIterator<Item = (&'static str, String)>,
    tensors: impl IntoIterator<Item = (String, &'static str, usize, Vec<u8>)>,
) -> Vec<u8> {
    let metadata = metadata
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()));
    let mut metadata: Map<String, Value> = metadata.collect();
    metadata.insert("checksum".to_owned(), "0".repeat(DIGITS).into());
    let mut header = Map::new();
    header.insert("__metadata__".to_owned(), metadata.into());
    let mut data = Vec::new();
    for (name, dtype, count, values) in tensors {
        let offsets = [data.len(), data.len() + values.len()];
        data.extend(values);
        let info = json!({"dtype": dtype, "shape": [count], "data_offsets": offsets});
        header.insert(name, info);
    }
    let mut header = to_json(&header).into_bytes();
    // The format aligns the data to 8 bytes.
    header.resize(header.len().next_multiple_of(8), b' ');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    bytes.extend(data);
    let digits = checksum(&bytes, None);
    let place = checksum_place(&bytes).expect("the header has a checksum");
    bytes[place..place + DIGITS].copy_from_slice(digits.as_bytes());
    bytes
}

/// The metadata and the tensors of a file of a format, at most of the version `known`, with its checksum checked.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    path: &Path,
    format: &str,
    known: u32,
) -> Result<(HashMap<String, String>, SafeTensors<'a>)> {
    let damaged = |message: String| Error::DamagedModel {
        path: path.to_path_buf(),
        message: clean(&message),
    };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(e.to_string()))?;
    let tensors = SafeTensors::deserialize(bytes).map_err(|e| damaged(e.to_string()))?;
    let not_a_model = || Error::NotAModel {
        path: path.to_path_buf(),
    };
    let metadata = header.metadata().clone().ok_or_else(not_a_model)?;
    match metadata.get("format").map(String::as_str) {
        Some(found) if found == format => {}
        Some(crate::grouped_file::FORMAT) => {
            return Err(Error::GroupedModels {
                path: path.to_path_buf(),
            });
        }
        _ => return Err(not_a_model()),
    }
    let get = |key: &str| {
        let missing = || damaged(format!("its header has no `{key}`"));
        metadata.get(key).ok_or_else(missing)
    };
    let version = get("version")?;
    let version: u32 = version
        .parse()
        .map_err(|_| damaged(format!("version `{version}`")))?;
    if version == 0 {
        return Err(damaged("version `0`".to_owned()));
    }
    if version > known {
        return Err(Error::NewerModel {
            path: path.to_path_buf(),
            version,
            known,
        });
    }
    if version >= CHECKED_VERSION || format != FORMAT {
        let said = get("checksum")?;
        let place = checksum_place(bytes);
        if place.is_none_or(|place| checksum(bytes, Some(place)) != *said) {
            return Err(damaged(
                "its checksum is not that of its contents; fit it again, or copy it again from where it was \
                 whole"
                    .to_owned(),
            ));
        }
    }
    Ok((metadata, tensors))
}

/// Logits of ordinary scores are nowhere near the limit of 32-bit floats; NaN is not below it either.
const LARGEST_LOGIT: f64 = 1e30;

/// Whether a model gives usable logits for ordinary scores: equal ones, spread ones, and a certain one.
fn gives_numbers(model: &Model) -> bool {
    let classes = model.classes();
    let spread = |k: usize| 40.0 * k as f32 / classes.max(2) as f32 - 20.0;
    let mut rows = vec![0.0_f32; classes];
    rows.extend((0..classes).map(spread));
    rows.extend((0..classes).map(|k| if k + 1 == classes { 30.0 } else { -1.0 }));
    let Ok(rows) = ndarray::Array2::from_shape_vec((3, classes), rows) else {
        return false;
    };
    let Ok(scores) = Scores::new(ScoreKind::Logits, rows.view()) else {
        return false;
    };
    let logits = model.apply::<f64>(&scores, ScoreKind::Logits);
    logits.is_ok_and(|logits| logits.iter().all(|v| v.abs() < LARGEST_LOGIT))
}

/// Where the digits of the checksum begin, in the header. What is inside a JSON string has its quotes escaped, so
/// no name or setting can look like it.
fn checksum_place(bytes: &[u8]) -> Option<usize> {
    let mut windows = bytes.windows(CHECKSUM.len());
    let place = windows.position(|window| window == CHECKSUM)? + CHECKSUM.len();
    (place + DIGITS <= bytes.len()).then_some(place)
}

/// The SHA-256 of a file's bytes, with zeros in place of the checksum's digits.
fn checksum(bytes: &[u8], place: Option<usize>) -> String {
    let mut hash = Sha256::new();
    match place {
        None => hash.update(bytes),
        Some(place) => {
            hash.update(&bytes[..place]);
            hash.update([b'0'; DIGITS]);
            hash.update(&bytes[place + DIGITS..]);
        }
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

pub(crate) fn to_json(value: &impl Serialize) -> String {
    // Through a `Value`, whose maps are sorted by key.
    let value: Value = serde_json::to_value(value).expect("plain data has a JSON form");
    value.to_string()
}

pub(crate) fn from_json<T: DeserializeOwned>(key: &str, text: &str) -> Result<T, String> {
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
