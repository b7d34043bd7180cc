//! Models as plain data: settings that fit in a header, and arrays of numbers with names.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Model;
use crate::error::{Error, Result};

/// A form of model that writes and reads itself.
pub(super) trait Stored: Sized {
    /// Writes the settings and arrays that [`read`](Self::read) needs.
    fn write(&self, parts: &mut ModelParts) -> Result<()>;

    /// Builds the model from what [`write`](Self::write) wrote, and checks all of it.
    fn read(parts: &mut PartsReader<'_>) -> Result<Self>;
}

/// The numbers of an array.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TensorValues {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// Counts.
    U32(Vec<u32>),
}

/// An element type of [`TensorValues`].
pub(crate) trait Element: Sized {
    /// What an array of it is called in messages.
    const ARRAY: &'static str;
    fn wrap(values: Vec<Self>) -> TensorValues;
    fn unwrap(values: TensorValues) -> Option<Vec<Self>>;
}

macro_rules! element {
    ($type:ty, $variant:ident, $array:literal) => {
        impl Element for $type {
            const ARRAY: &'static str = $array;

            fn wrap(values: Vec<Self>) -> TensorValues {
                TensorValues::$variant(values)
            }

            fn unwrap(values: TensorValues) -> Option<Vec<Self>> {
                match values {
                    TensorValues::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    };
}

element!(f32, F32, "an array of 32-bit floats");
element!(f64, F64, "an array of 64-bit floats");
element!(u32, U32, "an array of 32-bit counts");

/// Everything a [`Model`] is made of, to be stored.
///
/// `settings` is a JSON object: the name of the form under `form`, and what the form needs beside its arrays.
/// The arrays of a model inside another one have names that begin with its place: `0.params`, `then.slopes`.
///
/// ```
/// use ordercal::Model;
/// use ordercal::models::TsModel;
///
/// let model = Model::from(TsModel::new(3, 0.5)?);
/// let parts = model.to_parts()?;
/// assert_eq!(parts.settings.to_string(), r#"{"beta":0.5,"classes":3,"form":"ts"}"#);
/// assert_eq!(Model::from_parts(parts)?, model);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelParts {
    /// The settings, an object.
    pub settings: Value,
    /// The arrays, each with its name.
    pub tensors: Vec<(String, TensorValues)>,
}

impl ModelParts {
    pub(super) fn of_form(form: &str) -> Self {
        let mut settings = Map::new();
        settings.insert("form".to_owned(), form.into());
        Self {
            settings: settings.into(),
            tensors: Vec::new(),
        }
    }

    /// Adds every field of a struct to the settings.
    pub(super) fn set(&mut self, fields: &impl Serialize) {
        if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
            for (name, value) in fields {
                self.settings[name] = value;
            }
        }
    }

    /// Adds an array.
    pub(super) fn tensor<T: Element>(&mut self, name: &str, values: Vec<T>) {
        self.tensors.push((name.to_owned(), T::wrap(values)));
    }

    /// Adds the arrays of a model inside this one, and returns its settings.
    pub(super) fn child(&mut self, place: &str, model: &Model) -> Result<Value> {
        let parts = model.to_parts()?;
        let named = parts.tensors.into_iter();
        let named = named.map(|(name, values)| (format!("{place}{name}"), values));
        self.tensors.extend(named);
        Ok(parts.settings)
    }
}

/// Takes settings and arrays out of [`ModelParts`], for one model among those inside each other.
pub(crate) struct PartsReader<'a> {
    settings: Map<String, Value>,
    tensors: &'a mut BTreeMap<String, TensorValues>,
    /// What the names of this model's arrays begin with.
    place: String,
}

impl<'a> PartsReader<'a> {
    /// Reads the whole of `parts`: nothing may be left over.
    pub(super) fn read_all(parts: ModelParts) -> Result<Model> {
        let mut tensors: BTreeMap<String, TensorValues> = parts.tensors.into_iter().collect();
        let model = PartsReader::model(parts.settings, &mut tensors, String::new())?;
        match tensors.into_keys().next() {
            None => Ok(model),
            Some(name) => Err(damaged(&name, "an array too many".to_owned(), "none")),
        }
    }

    fn model(
        settings: Value,
        tensors: &'a mut BTreeMap<String, TensorValues>,
        place: String,
    ) -> Result<Model> {
        let Value::Object(mut settings) = settings else {
            let found = settings.to_string();
            return Err(damaged("model", found, "a JSON object"));
        };
        let form = match settings.remove("form") {
            Some(Value::String(form)) => form,
            other => {
                let found = other.map_or_else(|| "nothing".to_owned(), |v| v.to_string());
                return Err(damaged("form", found, "the name of a form"));
            }
        };
        let mut reader = PartsReader {
            settings,
            tensors,
            place,
        };
        Model::read_form(&form, &mut reader)
    }

    /// All settings that are left, as a struct.
    pub(super) fn settings<T: DeserializeOwned>(&mut self) -> Result<T> {
        let settings = std::mem::take(&mut self.settings);
        serde_json::from_value(settings.into())
            .map_err(|e| damaged("model", e.to_string(), "the settings of its form"))
    }

    /// An array of this model.
    pub(super) fn tensor<T: Element>(&mut self, name: &str) -> Result<Vec<T>> {
        let name = format!("{}{name}", self.place);
        let found = match self.tensors.remove(&name) {
            None => "nothing",
            Some(values) => match T::unwrap(values) {
                Some(values) => return Ok(values),
                None => "another type",
            },
        };
        Err(damaged(&name, found.to_owned(), T::ARRAY))
    }

    /// A model inside this one.
    pub(super) fn child(&mut self, place: &str, settings: Value) -> Result<Model> {
        let place = format!("{}{place}", self.place);
        PartsReader::model(settings, self.tensors, place)
    }
}

fn damaged(part: &str, found: String, expected: &'static str) -> Error {
    Error::InvalidPart {
        part: part.into(),
        found,
        expected,
    }
}
