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
use derive_setters::Setters;
use ordercal::models::{ModelParts, TensorValues};
use ordercal::{Fingerprint, FitReport, Method, Model, ScoreKind, Scores};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::atomic::write_atomically;
use crate::error::{Error, Result, clean};
use crate::safetensors;

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
#[derive(Debug, Clone, PartialEq, Setters)]
#[setters(prefix = "with_", into)]
#[non_exhaustive]
pub struct SavedModel {
    /// The model.
    #[setters(skip)]
    pub model: Model,
    /// How it was fitted.
    #[setters(skip)]
    pub method: Method,
    /// What the fit did.
    #[setters(skip)]
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

    /// Writes the model to a file, atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        save(path, self.to_bytes())
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
            let (dtype, count, bytes) = encode(&values);
            (name, dtype, count, bytes)
        });
        Ok(assemble(metadata, tensors))
    }

    /// Reads a model and checks it.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, holds no model, or one from a newer version.
    pub fn load(path: &Path) -> Result<Self> {
        // This checks the sizes in the header against the size of the file before memory is allocated.
        safetensors::open(path).map_err(|error| match error {
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
        let file = Contents::open(bytes, path, FORMAT, FORMAT_VERSION)?;
        let mut arrays = Vec::new();
        for (name, view) in file.tensors.tensors() {
            let values = values_of(&view);
            let values = values.ok_or_else(|| file.damaged(format!("the type of `{name}`")))?;
            arrays.push((name, values));
        }
        let parts = ModelParts {
            settings: file.json("model")?,
            tensors: arrays,
        };
        let model = Model::from_parts(parts).map_err(|e| file.damaged(e))?;
        if !gives_numbers(&model) {
            return Err(
                file.damaged("its parameters give results that are no numbers; fit it again")
            );
        }
        if file.get("classes")? != &model.classes().to_string() {
            return Err(file.damaged("its parts are for different numbers of classes"));
        }
        let class_names: Option<Vec<String>> = file.json_or_none("class_names")?;
        let count = class_names.as_ref().map(Vec::len);
        if count.is_some_and(|count| count != model.classes()) {
            return Err(file.damaged("it does not have one name per class"));
        }
        let data = file.metadata.get("data").map(|text| text.parse());
        Ok(Self {
            model,
            data: data.transpose().map_err(|e| file.damaged(e))?,
            method: file.json("method")?,
            report: file.json("report")?,
            class_names,
            class_type: file.json_or_none("class_type")?.unwrap_or_default(),
            kind: file.json_or_none("kind")?,
        })
    }
}

/// Writes a file, atomically.
pub(crate) fn save(path: &Path, bytes: ordercal::Result<Vec<u8>>) -> Result<()> {
    write_atomically(path, &bytes.map_err(|source| Error::data(path, source))?)
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

/// The metadata and the tensors of a file.
pub(crate) struct Contents<'a> {
    path: &'a Path,
    metadata: HashMap<String, String>,
    pub(crate) tensors: SafeTensors<'a>,
}

impl<'a> Contents<'a> {
    /// Reads a file of a format, at most of the version `known`, and checks its checksum.
    pub(crate) fn open(bytes: &'a [u8], path: &'a Path, format: &str, known: u32) -> Result<Self> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|e| damaged(path, e))?;
        let not_a_model = || Error::NotAModel {
            path: path.to_path_buf(),
        };
        let file = Self {
            path,
            tensors: SafeTensors::deserialize(bytes).map_err(|e| damaged(path, e))?,
            metadata: header.metadata().clone().ok_or_else(not_a_model)?,
        };
        match file.metadata.get("format").map(String::as_str) {
            Some(found) if found == format => {}
            Some(crate::grouped_file::FORMAT) => {
                return Err(Error::GroupedModels {
                    path: path.to_path_buf(),
                });
            }
            _ => return Err(not_a_model()),
        }
        let version = file.get("version")?;
        let version = match version.parse::<u32>() {
            Ok(version) if version > 0 => version,
            _ => return Err(file.damaged(format!("version `{version}`"))),
        };
        if version > known {
            return Err(Error::NewerModel {
                path: path.to_path_buf(),
                version,
                known,
            });
        }
        if version >= CHECKED_VERSION || format != FORMAT {
            let said = file.get("checksum")?;
            let place = checksum_place(bytes);
            if place.is_none_or(|place| checksum(bytes, Some(place)) != *said) {
                return Err(file.damaged(
                    "its checksum is not that of its contents; fit it again, or copy it again from where it was whole",
                ));
            }
        }
        Ok(file)
    }

    pub(crate) fn damaged(&self, message: impl ToString) -> Error {
        damaged(self.path, message)
    }

    fn get(&self, key: &str) -> Result<&String> {
        let missing = || self.damaged(format!("its header has no `{key}`"));
        self.metadata.get(key).ok_or_else(missing)
    }

    /// A value that is stored as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, key: &str) -> Result<T> {
        let value = serde_json::from_str(self.get(key)?);
        value.map_err(|e| self.damaged(format!("`{key}` in its header: {e}")))
    }

    fn json_or_none<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let present = self.metadata.contains_key(key);
        present.then(|| self.json(key)).transpose()
    }
}

fn damaged(path: &Path, message: impl ToString) -> Error {
    Error::DamagedModel {
        path: path.to_path_buf(),
        message: clean(&message.to_string()),
    }
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

/// The type, the length and the bytes of an array.
fn encode(values: &TensorValues) -> (&'static str, usize, Vec<u8>) {
    fn bytes<T: Copy, const SIZE: usize>(values: &[T], one: fn(T) -> [u8; SIZE]) -> Vec<u8> {
        values.iter().flat_map(|&value| one(value)).collect()
    }
    match values {
        TensorValues::F32(v) => ("F32", v.len(), bytes(v, f32::to_le_bytes)),
        TensorValues::F64(v) => ("F64", v.len(), bytes(v, f64::to_le_bytes)),
        TensorValues::U32(v) => ("U32", v.len(), bytes(v, u32::to_le_bytes)),
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
