//! Pickled numpy arrays, and tensors of PyTorch, in tuples, lists and dicts, read without executing anything.
//!
//! A pickle is a program for a small stack machine, and in Python it can call any function. Here it can build
//! numbers, text, containers and, by the constructors in `numpy.rs`, numpy arrays; anything else is refused.
//! Values refer to each other by their position in one list, so that neither reading nor dropping them recurses.
//! Memory is bounded by a multiple of the file's size.

mod machine;
mod numpy;
mod torch;

pub(crate) use self::torch::StorageBytes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use self::machine::{Id, Machine, Node};
use crate::archive::{Archive, Entry, UnreadableType};
use crate::array::{AnyArray, ElementType, Values};
use crate::array_reader::ArrayReader;
use crate::data_ref;
use crate::error::{Result, clean};
use crate::formats::{Codec, Reading};

pub(crate) const CODEC: Codec = Codec {
    read: Reading::Archive(|path| Ok(Box::new(Pickle::open(path)?))),
    write: None,
};

/// How deeply arrays may be nested in containers.
const DEEPEST: usize = 8;

/// An open pickle.
pub(crate) struct Pickle {
    path: PathBuf,
    machine: Machine,
    entries: Vec<Entry>,
    nodes: Vec<Id>,
    /// The values of the tensors of PyTorch.
    storages: BTreeMap<String, StorageBytes>,
}

impl Pickle {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = data_ref::read_all(path)?;
        Self::run(path, Machine::new(path, bytes), BTreeMap::new())
    }

    /// A pickle of PyTorch, whose tensors are in storages elsewhere in the file.
    pub(crate) fn with_storages(
        path: &Path,
        bytes: Vec<u8>,
        storages: BTreeMap<String, StorageBytes>,
    ) -> Result<Self> {
        Self::run(path, Machine::new(path, bytes).with_tensors(), storages)
    }

    fn run(
        path: &Path,
        mut machine: Machine,
        storages: BTreeMap<String, StorageBytes>,
    ) -> Result<Self> {
        let root = machine.run()?;
        let mut pickle = Self {
            path: path.to_path_buf(),
            machine,
            entries: Vec::new(),
            nodes: Vec::new(),
            storages,
        };
        // A value that is shared is visited once per reference; the budget bounds their number.
        let mut budget = pickle.machine.len() * 4 + 1024;
        pickle.flatten(root, "", 0, &mut budget)?;
        Ok(pickle)
    }

    /// Names every array by its path: the keys of dicts, joined by `_`. A pair of arrays is scores and labels. A pair
    /// of such pairs is the splits `calib` and `test`, as in the files published with papers.
    fn flatten(&mut self, id: Id, name: &str, depth: usize, budget: &mut usize) -> Result<()> {
        if depth > DEEPEST || *budget == 0 {
            return Err(self.machine.refuse("the data is nested too deeply"));
        }
        *budget -= 1;
        let join = |part: &str| match name {
            "" => part.to_owned(),
            name => format!("{name}_{part}"),
        };
        if let Some((dtype, shape)) = self.array_like(id, budget) {
            let name = if name.is_empty() { "logits" } else { name };
            self.entries.push(Entry::new(name, dtype, shape));
            self.nodes.push(id);
            return Ok(());
        }
        match self.machine.node(id) {
            Node::Dict(items) => {
                for (key, value) in items.clone() {
                    let key = match self.machine.node(key) {
                        Node::Int(key) => key.to_string(),
                        _ => clean(self.machine.text(key).unwrap_or("?")),
                    };
                    self.flatten(value, &join(&key), depth + 1, budget)?;
                }
            }
            Node::Tuple(items) | Node::List(items) => {
                let items = items.clone();
                let parts: Vec<String> = match items.as_slice() {
                    &[scores, labels]
                        if self.is_array(scores, budget) && self.is_array(labels, budget) =>
                    {
                        vec!["logits".into(), "labels".into()]
                    }
                    &[calib, test] if self.is_pair(calib, budget) && self.is_pair(test, budget) => {
                        vec!["calib".into(), "test".into()]
                    }
                    items => (0..items.len()).map(|i| i.to_string()).collect(),
                };
                for (item, part) in items.into_iter().zip(parts) {
                    self.flatten(item, &join(&part), depth + 1, budget)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn is_array(&self, id: Id, budget: &mut usize) -> bool {
        self.array_like(id, budget).is_some()
    }

    fn is_pair(&self, id: Id, budget: &mut usize) -> bool {
        match self.machine.node(id) {
            Node::Tuple(items) | Node::List(items) => {
                items.len() == 2 && items.iter().all(|&item| self.is_array(item, budget))
            }
            _ => false,
        }
    }

    /// The type and shape of a numpy array, of a list of numbers or texts, or of a list of lists of numbers.
    fn array_like(
        &self,
        id: Id,
        budget: &mut usize,
    ) -> Option<(Result<ElementType, UnreadableType>, Vec<usize>)> {
        let items = match self.machine.node(id) {
            Node::Array(array) => return Some((array.dtype(), array.shape.clone())),
            Node::Tensor(tensor) => return Some((Ok(tensor.dtype), tensor.shape.clone())),
            Node::Tuple(items) | Node::List(items) => items,
            _ => return None,
        };
        if items.is_empty() || *budget < items.len() {
            return None;
        }
        *budget -= items.len();
        if let Some(dtype) = self.scalars(items) {
            return Some((Ok(dtype), vec![items.len()]));
        }
        let mut width = None;
        for &item in items {
            let (Node::Tuple(row) | Node::List(row)) = self.machine.node(item) else {
                return None;
            };
            if row.is_empty() || *width.get_or_insert(row.len()) != row.len() || *budget < row.len()
            {
                return None;
            }
            *budget -= row.len();
            self.scalars(row).filter(|dtype| !dtype.is_text())?;
        }
        Some((Ok(ElementType::F64), vec![items.len(), width?]))
    }

    /// The common type of numbers or of texts.
    fn scalars(&self, items: &[Id]) -> Option<ElementType> {
        let type_of = |&id: &Id| match self.machine.node(id) {
            Node::Int(_) | Node::Bool(_) => Some(ElementType::I64),
            Node::Float(_) => Some(ElementType::F64),
            Node::Text(_) | Node::OwnedText(_) => Some(ElementType::Text),
            _ => None,
        };
        let mut types = items.iter().map(type_of);
        let first = types.next()??;
        types.try_fold(first, |common, next| match (common, next?) {
            (a, b) if a == b => Some(a),
            (ElementType::Text, _) | (_, ElementType::Text) => None,
            _ => Some(ElementType::F64),
        })
    }

    fn number(&self, id: Id) -> f64 {
        match self.machine.node(id) {
            Node::Int(value) => *value as f64,
            Node::Bool(value) => f64::from(u8::from(*value)),
            Node::Float(value) => *value,
            _ => f64::NAN,
        }
    }

    fn build(&self, entry: &Entry, id: Id) -> Result<AnyArray> {
        let items = match self.machine.node(id) {
            Node::Array(array) => return numpy::build(&self.machine, array, &entry.name),
            Node::Tensor(tensor) => {
                return torch::build(&self.path, &entry.name, tensor, &self.storages);
            }
            Node::Tuple(items) | Node::List(items) => items,
            _ => unreachable!("an entry is an array or a list"),
        };
        let dtype = entry.dtype_or_error(&self.path)?;
        let values = match (dtype, entry.shape.len()) {
            (ElementType::Text, _) => {
                let texts = items.iter().map(|&id| self.machine.text(id));
                Values::Text(texts.map(|t| t.unwrap_or_default().to_owned()).collect())
            }
            (ElementType::I64, _) => Values::Int(
                items
                    .iter()
                    .map(|&id| match self.machine.node(id) {
                        Node::Int(value) => *value,
                        Node::Bool(value) => i64::from(*value),
                        _ => i64::MIN,
                    })
                    .collect(),
            ),
            (_, 1) => Values::F64(items.iter().map(|&id| self.number(id)).collect()),
            _ => {
                let rows = items.iter().map(|&id| match self.machine.node(id) {
                    Node::Tuple(row) | Node::List(row) => row.as_slice(),
                    _ => &[],
                });
                Values::F64(rows.flatten().map(|&id| self.number(id)).collect())
            }
        };
        Ok(AnyArray {
            shape: entry.shape.clone(),
            dtype,
            values,
        })
    }
}

impl Archive for Pickle {
    fn entries(&self) -> &[Entry] {
        &self.entries
    }

    fn reader(&self, index: usize) -> Result<ArrayReader> {
        let entry = &self.entries[index];
        entry.dtype_or_error(&self.path)?;
        let array = self.build(entry, self.nodes[index])?;
        Ok(ArrayReader::memory(&self.path, &entry.name, array))
    }
}
