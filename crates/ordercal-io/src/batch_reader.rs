//! Record batches in memory, as other programs hand them over: the same columns as in a file, scores without a copy.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use ordercal::{ScoreKind, match_class_names};

use crate::array::AnyArray;
use crate::arrow_columns::{
    ColumnPlace, check_number, column_names, find_columns, flat, flat_or_nan, interleave,
    list_or_nan, list_values, weights_of,
};
use crate::columns::{self, ScoreColumns, TableColumns};
use crate::data_ref::DataRef;
use crate::error::{Error, Result};
use crate::ids::IdValues;
use crate::labels::{ClassOrder, LabelDecoder, Labels, to_f64};
use crate::list_column::ListColumn;
use crate::reader::ReadOptions;
use crate::row_chunk::{RowChunk, ScoreMatrix};
use crate::row_source::{Wanted, both_classes};

/// What stands in messages for the name of a file.
const PLACE: &str = "record batch";

/// Reads the batches of one table, one after the other.
pub struct BatchReader {
    schema: SchemaRef,
    columns: TableColumns,
    names: Vec<String>,
    /// The number of classes, once it is known.
    classes: Option<usize>,
    class_names: Option<Vec<String>>,
    /// The order of the classes, if that of the columns is another.
    order: Option<ClassOrder>,
    decoder: LabelDecoder,
    /// Whether what is missing is read as NaN.
    lenient: bool,
    next_row: usize,
}

impl BatchReader {
    /// Finds the columns. Those that are handed through are the options' `ids`; `weight` is the column of weights.
    ///
    /// # Errors
    /// If a column that is asked for is not there, or it is not clear which one is meant.
    pub fn new(schema: &SchemaRef, options: ReadOptions, weight: Option<&str>) -> Result<Self> {
        let names = column_names(schema);
        let mut columns = find_columns(&DataRef::new(PLACE), &options, Wanted::Scores, schema)?;
        columns.weight = match weight {
            None => None,
            Some(name) => Some(columns::named(Path::new(PLACE), &names, name)?),
        };
        let class_names = columns.class_names.clone().or(options.class_names);
        let classes = match &columns.scores {
            ScoreColumns::Wide(columns) => Some(columns.len().max(2)),
            ScoreColumns::List(column) => match schema.field(*column).data_type() {
                DataType::FixedSizeList(_, 1) => Some(2),
                DataType::FixedSizeList(_, length) => usize::try_from(*length).ok(),
                _ => class_names.as_ref().map(Vec::len),
            },
        };
        if let (Some(names), Some(classes)) = (&class_names, classes) {
            Error::check_name_count(Path::new(PLACE), names.len(), classes)?;
        }
        Ok(Self {
            schema: Arc::clone(schema),
            decoder: LabelDecoder::new(class_names.as_deref(), options.ignored_label.as_deref()),
            columns,
            names,
            classes,
            class_names,
            order: None,
            lenient: false,
            next_row: 0,
        })
    }

    /// Reads missing values, and rows of another length, as NaN.
    #[must_use]
    pub fn with_missing_as_nan(self) -> Self {
        Self {
            lenient: true,
            ..self
        }
    }

    /// What the scores are.
    pub fn kind(&self) -> ScoreKind {
        self.columns.kind
    }

    /// Whether scores have more than 32 bits.
    pub fn is_double(&self) -> bool {
        let narrow = |dtype: &DataType| matches!(dtype, DataType::Float16 | DataType::Float32);
        let dtype = |column: usize| self.schema.field(column).data_type();
        match &self.columns.scores {
            ScoreColumns::Wide(columns) => !columns.iter().all(|&column| narrow(dtype(column))),
            ScoreColumns::List(column) => match dtype(*column) {
                DataType::FixedSizeList(field, _)
                | DataType::List(field)
                | DataType::LargeList(field) => !narrow(field.data_type()),
                _ => true,
            },
        }
    }

    /// The columns of the table.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(crate) fn score_columns(&self) -> &ScoreColumns {
        &self.columns.scores
    }

    /// Sets the number of classes, and matches the columns to their names if both are named: rows then come in the
    /// order of `known`. `owner` says whose classes these are.
    ///
    /// # Errors
    /// If the columns have other names, or another number of them.
    pub fn match_classes(
        &mut self,
        classes: usize,
        known: Option<&[String]>,
        owner: &'static str,
    ) -> Result<()> {
        let locate = |source| Error::data(Path::new(PLACE), source);
        if let Some(found) = self.classes.filter(|&found| found != classes) {
            return Err(locate(ordercal::Error::WrongClasses {
                expected: classes,
                found,
            }));
        }
        self.classes = Some(classes);
        match (&self.class_names, known) {
            (Some(names), Some(known)) => {
                let order = match_class_names(names, known, owner).map_err(locate)?;
                self.order = order.map(ClassOrder::new);
            }
            (None, Some(known)) => self.decoder = LabelDecoder::new(Some(known), None),
            (_, None) => {}
        }
        Ok(())
    }

    /// The rows of a batch; they are counted on from those of the last one.
    ///
    /// # Errors
    /// If a column does not hold what is expected.
    pub fn read(&mut self, batch: &RecordBatch) -> Result<RowChunk> {
        let first_row = self.next_row;
        let scores = self.scores(batch)?;
        let labels = self.columns.label.map(|column| {
            let place = self.place(column);
            let labels = flat(batch.column(column), &place)?;
            match self.decoder.decode(Path::new(PLACE), labels, first_row)? {
                Labels::Classes(mut labels) => {
                    if let Some(order) = &self.order {
                        order.relabel(&mut labels);
                    }
                    Ok(labels)
                }
                Labels::Shares(_) => Err(place.wrong_type("a list", "a label is one class")),
            }
        });
        let weights = self.columns.weight.map(|column| {
            let weights = weights_of(batch.column(column), &self.place(column))?;
            Ok(to_f64(&weights.values))
        });
        let ids = self.columns.ids.iter().map(|&column| {
            let ids = flat(batch.column(column), &self.place(column))?;
            Ok(IdValues::from_array(ids))
        });
        let chunk = RowChunk {
            path: PLACE.into(),
            labels_path: PLACE.into(),
            split: None,
            kind: self.columns.kind,
            first_row,
            scores,
            labels: labels.transpose()?,
            shares: None,
            groups: None,
            weights: weights.transpose()?,
            ids: ids.collect::<Result<_>>()?,
            kept: None,
        };
        self.next_row += batch.num_rows();
        Ok(chunk)
    }

    fn place(&self, column: usize) -> ColumnPlace<'_> {
        ColumnPlace {
            path: Path::new(PLACE),
            column: &self.names[column],
            row: self.next_row,
        }
    }

    fn scores(&self, batch: &RecordBatch) -> Result<ScoreMatrix> {
        let array = match &self.columns.scores {
            ScoreColumns::List(column) => {
                let (array, place) = (batch.column(*column), self.place(*column));
                // A list of one is the second of two classes, if those are what is expected.
                let single = matches!(array.data_type(), DataType::FixedSizeList(_, 1));
                let width = if single { Some(1) } else { self.classes };
                match list_values(array, &place, width) {
                    Ok((values, width)) if self.order.is_none() && width > 1 => {
                        if let Some(column) = ListColumn::new(&values, width) {
                            return Ok(ScoreMatrix::Column(column));
                        }
                    }
                    Err(error) if !self.lenient => return Err(error),
                    _ => {}
                }
                let width = width.unwrap_or_else(|| first_length(array));
                check_number(list_or_nan(array, &place, width)?, &place)?
            }
            ScoreColumns::Wide(columns) => {
                let columns = columns.iter().map(|&column| {
                    let place = self.place(column);
                    let read = if self.lenient { flat_or_nan } else { flat };
                    check_number(read(batch.column(column), &place)?, &place)
                });
                interleave(columns.collect::<Result<_>>()?, batch.num_rows())
            }
        };
        Ok(ScoreMatrix::from_array(self.in_order(array)))
    }

    /// Two classes where there was one column, and classes in the order that was asked for.
    fn in_order(&self, array: AnyArray) -> AnyArray {
        let array = match array.shape[1] {
            1 => both_classes(self.columns.kind, &array),
            _ => array,
        };
        match &self.order {
            Some(order) => array.with_columns(&order.columns),
            None => array,
        }
    }
}

/// The length of the first list.
fn first_length(array: &ArrayRef) -> usize {
    let place = ColumnPlace {
        path: Path::new(PLACE),
        column: "",
        row: 0,
    };
    let first = array.slice(0, array.len().min(1));
    list_values(&first, &place, None).map_or(0, |(_, width)| width)
}
