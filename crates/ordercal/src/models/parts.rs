//! Models as plain data: settings for the header of a file, and named arrays of numbers.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::Model;
use crate::error::{Error, Result};

/// A form of model that converts itself to and from [`ModelParts`].
pub(super) trait Stored: Sized {
    /// Writes the settings and arrays that [`read`](Self::read) needs.
    fn write(&self, parts: &mut ModelParts) -> Result<()>;

    /// Builds the model from the output of [`write`](Self::write), and validates it.
    fn read(parts: &mut PartsReader<'_>) -> Result<Self>;
}

/// Stores a form as its parts: the named fields as arrays, all others as settings.
macro_rules! stored_as_parts {
    ($form:ident, $parts:ident $(, $tensor:ident)*) => {
        impl super::parts::Stored for $form {
            fn write(&self, parts: &mut super::ModelParts) -> crate::error::Result<()> {
                let own = self.to_parts();
                parts.set(&own);
                $(parts.tensor(stringify!($tensor), own.$tensor);)*
                Ok(())
            }

            fn read(parts: &mut super::PartsReader<'_>) -> crate::error::Result<Self> {
                $(let $tensor = parts.tensor(stringify!($tensor))?;)*
                let settings: $parts = parts.settings()?;
                Self::from_parts($parts { $($tensor,)* ..settings })
            }
        }
    };
}
pub(super) use stored_as_parts;

/// The values of an array, in row-major order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TensorValues {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// 32-bit counts.
    U32(Vec<u32>),
}

/// An element type of [`TensorValues`].
pub(crate) trait Element: Sized {
    /// The name of an array of this type in error messages.
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

/// All data of a [`Model`], to be stored.
///
/// `settings` is a JSON object with the name of the form in `form` and the scalars of the form; `tensors` holds its arrays.
/// The arrays of a model nested in another one have a prefix that says where it belongs: `0.params`, `then.slopes`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelParts {
    /// The settings, a JSON object.
    pub settings: Value,
    /// The arrays with their names.
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

    /// Adds the serialised fields of a struct to the settings.
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

    /// Adds the arrays of a nested model with a prefix to their names, and returns its settings.
    pub(super) fn child(&mut self, prefix: &str, model: &Model) -> Result<Value> {
        let parts = model.to_parts()?;
        let named = parts.tensors.into_iter();
        let named = named.map(|(name, values)| (format!("{prefix}{name}"), values));
        self.tensors.extend(named);
        Ok(parts.settings)
    }
}

/// Removes the settings and arrays of one model, possibly nested, from [`ModelParts`].
pub(crate) struct PartsReader<'a> {
    settings: Map<String, Value>,
    tensors: &'a mut BTreeMap<String, TensorValues>,
    /// The prefix of the names of this model's arrays.
    prefix: String,
}

impl<'a> PartsReader<'a> {
    /// Reads a model; arrays that it does not use are an error.
    pub(super) fn read_all(parts: ModelParts) -> Result<Model> {
        let mut tensors: BTreeMap<String, TensorValues> = parts.tensors.into_iter().collect();
        let model = PartsReader::model(parts.settings, &mut tensors, String::new())?;
        match tensors.into_keys().next() {
            None => Ok(model),
            Some(name) => Err(damaged(
                &name,
                "an unexpected array".to_owned(),
                "no such array",
            )),
        }
    }

    fn model(
        settings: Value,
        tensors: &'a mut BTreeMap<String, TensorValues>,
        prefix: String,
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
            prefix,
        };
        Model::read_form(&form, &mut reader)
    }

    /// The remaining settings, as a struct.
    pub(super) fn settings<T: DeserializeOwned>(&mut self) -> Result<T> {
        let settings = std::mem::take(&mut self.settings);
        serde_json::from_value(settings.into())
            .map_err(|e| damaged("model", e.to_string(), "the settings of the form"))
    }

    /// An array of this model.
    pub(super) fn tensor<T: Element>(&mut self, name: &str) -> Result<Vec<T>> {
        let name = format!("{}{name}", self.prefix);
        let found = match self.tensors.remove(&name) {
            None => "nothing",
            Some(values) => match T::unwrap(values) {
                Some(values) => return Ok(values),
                None => "another type",
            },
        };
        Err(damaged(&name, found.to_owned(), T::ARRAY))
    }

    /// A nested model whose arrays have the given prefix.
    pub(super) fn child(&mut self, prefix: &str, settings: Value) -> Result<Model> {
        let prefix = format!("{}{prefix}", self.prefix);
        PartsReader::model(settings, self.tensors, prefix)
    }
}

fn damaged(part: &str, found: String, expected: &'static str) -> Error {
    Error::InvalidPart {
        part: part.into(),
        found,
        expected,
    }
}
