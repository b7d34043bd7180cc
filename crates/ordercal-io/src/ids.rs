//! Columns that are handed through from an input table to an output table.

use std::collections::HashMap;

use crate::array::{AnyArray, Values};
use crate::labels::to_f64;

/// The type of a column that is handed through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdType {
    /// Whole numbers.
    Integer,
    /// Other numbers.
    Float,
    /// Text.
    Text,
}

/// The values of such a column, one per row.
#[derive(Debug, Clone, PartialEq)]
pub enum IdValues {
    /// Whole numbers.
    Integer(Vec<i64>),
    /// Other numbers.
    Float(Vec<f64>),
    /// Text.
    Text(Vec<String>),
}

impl IdValues {
    pub(crate) fn from_array(array: AnyArray) -> Self {
        match array.values {
            Values::Int(values) => Self::Integer(values),
            Values::Text(values) => Self::Text(values),
            values => Self::Float(to_f64(&values)),
        }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Equal values as equal numbers, in the order of their first rows.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        let mut known = HashMap::new();
        let number = |row: usize| {
            let count = known.len() as u32;
            *known.entry(self.text(row)).or_insert(count)
        };
        (0..self.len()).map(number).collect()
    }

    /// The type.
    pub fn id_type(&self) -> IdType {
        match self {
            Self::Integer(_) => IdType::Integer,
            Self::Float(_) => IdType::Float,
            Self::Text(_) => IdType::Text,
        }
    }

    /// The value of a row as text.
    pub fn text(&self, row: usize) -> String {
        match self {
            Self::Integer(values) => values[row].to_string(),
            Self::Float(values) => values[row].to_string(),
            Self::Text(values) => values[row].clone(),
        }
    }

    /// The values of some rows.
    pub fn keep(&self, rows: &[usize]) -> Self {
        match self {
            Self::Integer(values) => Self::Integer(rows.iter().map(|&r| values[r]).collect()),
            Self::Float(values) => Self::Float(rows.iter().map(|&r| values[r]).collect()),
            Self::Text(values) => Self::Text(rows.iter().map(|&r| values[r].clone()).collect()),
        }
    }
}
