//! What `.npy`, `.npz`, `.safetensors` and pickle files have in common: arrays with names.

use std::path::Path;

use crate::array::{Dtype, show_shape};
use crate::error::{Error, Result, clean};
use crate::raw::ArrayReader;

/// Why an array cannot be read. It is an error only if the array is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// Python objects.
    Object,
    /// A type that is not read, in words.
    Other(String),
}

/// An array in a file, before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: Result<Dtype, Foreign>,
    pub(crate) shape: Vec<usize>,
}

impl Entry {
    /// An array. A name that could not stand in a message is no name of a role either, so it is cleaned here.
    pub(crate) fn new(name: &str, dtype: Result<Dtype, Foreign>, shape: Vec<usize>) -> Self {
        Self {
            name: clean(name),
            dtype,
            shape,
        }
    }

    /// The type, or the error that says why there is none.
    pub(crate) fn dtype_or_error(&self, path: &Path) -> Result<Dtype> {
        let path = || path.to_path_buf();
        match &self.dtype {
            Ok(dtype) => Ok(*dtype),
            Err(Foreign::Object) => Err(Error::ObjectArray {
                path: path(),
                array: self.name.clone(),
            }),
            Err(Foreign::Other(found)) => Err(Error::WrongDtype {
                path: path(),
                array: self.name.clone(),
                found: found.clone(),
                expected: "only floats, integers, booleans and text are read",
            }),
        }
    }

    /// The name, type and shape, as errors list them.
    pub(crate) fn describe(&self) -> String {
        let dtype = match &self.dtype {
            Ok(dtype) => dtype.to_string(),
            Err(Foreign::Object) => "object".into(),
            Err(Foreign::Other(name)) => name.clone(),
        };
        format!("`{}` {dtype} {}", self.name, show_shape(&self.shape))
    }
}

/// A file that holds arrays by name.
pub(crate) trait Archive {
    /// The arrays, in the file's order.
    fn entries(&self) -> &[Entry];

    /// Starts reading one of them.
    fn reader(&self, index: usize) -> Result<ArrayReader>;
}

/// Names in a row for an error message, at most a dozen.
pub(crate) fn list(mut names: impl ExactSizeIterator<Item = String>) -> String {
    const SHOWN: usize = 12;
    let count = names.len();
    if count == 0 {
        return "nothing".into();
    }
    let mut text = names.by_ref().take(SHOWN).collect::<Vec<_>>().join(", ");
    if count > SHOWN {
        text.push_str(&format!(" and {} more", count - SHOWN));
    }
    text
}
