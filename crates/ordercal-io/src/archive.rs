//! Files that hold arrays with names.

use std::path::Path;

use crate::array::{ElementType, show_shape};
use crate::array_reader::ArrayReader;
use crate::error::{Error, Result, clean};

/// A type of elements that is not read. It becomes an error only if the array is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnreadableType {
    /// Python objects.
    Object,
    /// Any other type, in words.
    Other(String),
}

/// An array in a file, before it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) dtype: Result<ElementType, UnreadableType>,
    pub(crate) shape: Vec<usize>,
}

impl Entry {
    /// An array; control characters in its name are replaced.
    pub(crate) fn new(
        name: &str,
        dtype: Result<ElementType, UnreadableType>,
        shape: Vec<usize>,
    ) -> Self {
        Self {
            name: clean(name),
            dtype,
            shape,
        }
    }

    /// The type, or an error if it is not read.
    pub(crate) fn dtype_or_error(&self, path: &Path) -> Result<ElementType> {
        match &self.dtype {
            Ok(dtype) => Ok(*dtype),
            Err(UnreadableType::Object) => Err(Error::ObjectArray {
                path: path.to_path_buf(),
                array: self.name.clone(),
            }),
            Err(UnreadableType::Other(found)) => Err(Error::wrong_type(
                path,
                &self.name,
                found,
                "only floats, integers, booleans and text are read",
            )),
        }
    }

    /// The name, type and shape, for messages.
    pub(crate) fn describe(&self) -> String {
        let dtype = match &self.dtype {
            Ok(dtype) => dtype.to_string(),
            Err(UnreadableType::Object) => "object".into(),
            Err(UnreadableType::Other(name)) => name.clone(),
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

    /// The names of the classes, if the file has them elsewhere than in an array.
    fn class_names(&self) -> Option<Vec<String>> {
        None
    }
}

/// The names, types and shapes of arrays, for messages.
pub(crate) fn describe(entries: &[Entry]) -> String {
    list(entries.iter().map(Entry::describe))
}

/// Names separated by commas, for messages; at most a dozen.
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
