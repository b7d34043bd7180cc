//! Tables of text, which are read row by row.

use crate::array::{AnyArray, ElementType, Values};
use crate::columns::{ScoreColumns, TableColumns};
use crate::error::Result;
use crate::ids::IdType;
use crate::row_source::{Opened, RawRows, RowSource};

/// An open table, and its current row.
pub(crate) trait TextTable: Send {
    /// Reads the next row; false after the last.
    fn advance(&mut self) -> Result<bool>;

    fn number(&self, column: usize) -> Result<f64>;

    /// Appends the numbers of a list, of which there must be `expected`.
    fn numbers(&self, column: usize, expected: usize, to: &mut Vec<f64>) -> Result<()>;

    fn label(&self, column: usize) -> Result<String>;

    /// Appends a value of a column that is handed through.
    fn push_id(&self, column: usize, to: &mut Values) -> Result<()>;
}

/// Starts reading scores.
pub(crate) fn open(
    table: impl TextTable + 'static,
    columns: TableColumns,
    classes: usize,
    ids: Vec<(String, IdType)>,
) -> Opened {
    Opened {
        kind: columns.kind,
        classes,
        rows: None,
        has_labels: columns.label.is_some(),
        class_names: columns.class_names.clone(),
        split: None,
        ignored: columns.ignored.clone(),
        source: Box::new(TextSource {
            table,
            columns,
            classes,
            ids: ids.iter().map(|(_, id_type)| *id_type).collect(),
        }),
        ids,
    }
}

struct TextSource<T> {
    table: T,
    columns: TableColumns,
    classes: usize,
    ids: Vec<IdType>,
}

impl<T: TextTable> RowSource for TextSource<T> {
    fn next_rows(&mut self, max: usize) -> Result<Option<RawRows>> {
        let table = &mut self.table;
        let (mut scores, mut labels, mut weights) = (Vec::new(), Vec::new(), Vec::new());
        let element = |id_type: &IdType| match id_type {
            IdType::Integer => ElementType::I64,
            IdType::Float => ElementType::F64,
            IdType::Text => ElementType::Text,
        };
        let empty = |dtype| AnyArray::vector(dtype, Values::with_capacity(dtype, 0));
        let mut ids: Vec<AnyArray> = self.ids.iter().map(|id| empty(element(id))).collect();
        let mut rows = 0;
        while rows < max && table.advance()? {
            match &self.columns.scores {
                ScoreColumns::Wide(columns) => {
                    for &column in columns {
                        scores.push(table.number(column)?);
                    }
                }
                ScoreColumns::List(column) => table.numbers(*column, self.classes, &mut scores)?,
            }
            if let Some(column) = self.columns.label {
                labels.push(table.label(column)?);
            }
            if let Some(column) = self.columns.weight {
                weights.push(table.number(column)?);
            }
            for (array, &column) in ids.iter_mut().zip(&self.columns.ids) {
                table.push_id(column, &mut array.values)?;
                array.shape[0] += 1;
            }
            rows += 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let has =
            |column: Option<usize>, dtype, values| column.map(|_| AnyArray::vector(dtype, values));
        Ok(Some(RawRows {
            scores: AnyArray {
                shape: vec![rows, self.classes],
                dtype: ElementType::F64,
                values: Values::F64(scores),
            },
            labels: has(self.columns.label, ElementType::Text, Values::Text(labels)),
            weights: has(self.columns.weight, ElementType::F64, Values::F64(weights)),
            ids,
        }))
    }
}
