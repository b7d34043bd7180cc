//! Record batches in memory, as other programs hand them over: the same columns as in a file, scores without a copy.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, SchemaRef};
use ordercal::{ScoreKind, match_class_names};

use crate::array::AnyArray;
use crate::arrow_columns::{
    ColumnPlace, check_number, flat, flat_or_nan, interleave, is_list, list_or_nan, list_values,
};
use crate::columns::{self, Header, ScoreColumns, TableColumns};
use crate::data_ref::DataRef;
use crate::error::{Error, Result, clean};
use crate::ids::IdValues;
use crate::labels::{LabelDecoder, Labels, to_f64};
use crate::list_column::ListColumn;
use crate::reader::ReadOptions;
use crate::row_chunk::{RowChunk, ScoreMatrix};
use crate::row_source::both_classes;

/// What stands in messages for the name of a file.
const PLACE: &str = "record batch";

/// Reads the batches of one table, one after the other.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{ArrayRef, Float32Array, RecordBatch};
/// use ordercal_io::{BatchReader, ReadOptions};
///
/// let column = |values: [f32; 2]| Arc::new(Float32Array::from(values.to_vec())) as ArrayRef;
/// let columns = [("logit_0", column([2.0, -1.0])), ("logit_1", column([0.5, 0.0]))];
/// let batch = RecordBatch::try_from_iter(columns)?;
/// let mut reader = BatchReader::new(&batch.schema(), ReadOptions::default(), None)?;
/// assert_eq!(reader.read(&batch)?.checked_scores()?.row(1), [-1.0, 0.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BatchReader {
    schema: SchemaRef,
    columns: TableColumns,
    names: Vec<String>,
    /// The number of classes, once it is known.
    classes: Option<usize>,
    class_names: Option<Vec<String>>,
    /// For each class its column, if they stand in another order.
    order: Option<Vec<usize>>,
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
        let names: Vec<String> = schema.fields().iter().map(|f| clean(f.name())).collect();
        let header = Header {
            names: &names,
            named: true,
            is_list: &|column| is_list(schema.field(column).data_type()),
        };
        let mut columns = columns::find(&DataRef::new(PLACE), &header, &options)?;
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
        if let (Some(names), Some(classes)) = (&class_names, classes)
            && names.len() != classes
        {
            return Err(Error::ClassNameCount {
                path: PLACE.into(),
                found: names.len(),
                classes,
            });
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
        let locate = |source| Error::Data {
            path: PLACE.into(),
            split: None,
            source,
        };
        if let Some(found) = self.classes.filter(|&found| found != classes) {
            return Err(locate(ordercal::Error::WrongClasses {
                expected: classes,
                found,
            }));
        }
        self.classes = Some(classes);
        match (&self.class_names, known) {
            (Some(names), Some(known)) => {
                self.order = match_class_names(names, known, owner).map_err(locate)?;
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
                Labels::Classes(labels) => Ok(self.classes_of(labels)),
                Labels::Shares(_) => Err(place.wrong_type("a list", "a label is one class")),
            }
        });
        let weights = self.columns.weight.map(|column| {
            let place = self.place(column);
            let weights = flat(batch.column(column), &place)?;
            match weights.dtype.is_text() {
                true => Err(place.wrong_type("text", "weights are numbers")),
                false => Ok(to_f64(&weights.values)),
            }
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

    /// The classes of labels that are numbers of columns. A label that is no class stays as it is; the dataset refuses it.
    fn classes_of(&self, mut labels: Vec<i64>) -> Vec<i64> {
        if let Some(order) = &self.order {
            let mut classes = vec![0; order.len()];
            for (class, &column) in order.iter().enumerate() {
                classes[column] = class as i64;
            }
            for label in &mut labels {
                let column = usize::try_from(*label).unwrap_or(usize::MAX);
                *label = classes.get(column).copied().unwrap_or(*label);
            }
        }
        labels
    }

    /// Two classes where there was one column, and classes in the order that was asked for.
    fn in_order(&self, array: AnyArray) -> AnyArray {
        let array = match array.shape[1] {
            1 => both_classes(self.columns.kind, &array),
            _ => array,
        };
        match &self.order {
            Some(order) => array.with_columns(order),
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
