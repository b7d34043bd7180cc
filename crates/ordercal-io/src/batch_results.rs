//! Calibrated scores as columns of a record batch, in the layout that its scores have.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, ArrowPrimitiveType, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
    PrimitiveArray, RecordBatch,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use ndarray::Array2;
use ordercal::ScoreKind;

use crate::batch_reader::BatchReader;
use crate::columns::{KINDS, ScoreColumns};
use crate::writer::OutputType;

/// Where results go: behind the other columns, or in the place of those that have their names.
///
/// Lists of scores give lists, fixed-size lists and tensors give such, and a column per class gives a column per class.
pub struct BatchResults {
    schema: SchemaRef,
    /// The type of a column of lists; `None` for a column per class.
    list: Option<DataType>,
    classes: usize,
    /// For each column of the result its place in the schema.
    places: Vec<usize>,
    /// Null where a row has no result; otherwise there is one for every row.
    dtype: OutputType,
}

impl BatchResults {
    /// The columns for results of `kind`. `name` is that of the list column, or what begins the name of each class's;
    /// by default it tells the kind. `class_names` are the rest of the names; by default their numbers.
    pub fn new(
        reader: &BatchReader,
        kind: ScoreKind,
        dtype: OutputType,
        classes: usize,
        class_names: Option<&[String]>,
        name: Option<&str>,
    ) -> Self {
        let schema = reader.schema();
        let (prefix, list_name) = KINDS
            .iter()
            .find(|known| known.0 == kind)
            .map_or(("", ""), |known| (known.1, known.2));
        let value_type = match dtype {
            OutputType::F32 => DataType::Float32,
            OutputType::F64 => DataType::Float64,
        };
        let (list, fields) = match reader.score_columns() {
            ScoreColumns::List(column) => {
                let source = schema.field(*column);
                let inner = |field: &FieldRef| -> FieldRef {
                    Field::new(field.name(), value_type.clone(), true).into()
                };
                let dtype = match source.data_type() {
                    DataType::FixedSizeList(field, _) => {
                        DataType::FixedSizeList(inner(field), classes as i32)
                    }
                    DataType::LargeList(field) => DataType::LargeList(inner(field)),
                    DataType::List(field) => DataType::List(inner(field)),
                    _ => unreachable!("a column of lists"),
                };
                // What makes a fixed-size list a tensor.
                let extension = source.metadata().iter();
                let extension = extension.filter(|(key, _)| key.starts_with("ARROW:extension:"));
                let metadata: HashMap<_, _> =
                    extension.map(|(k, v)| (k.clone(), v.clone())).collect();
                let field = Field::new(name.unwrap_or(list_name), dtype.clone(), true);
                (Some(dtype), vec![field.with_metadata(metadata)])
            }
            ScoreColumns::Wide(_) => {
                let prefix = name.unwrap_or(prefix);
                let field = |k: usize| {
                    let class = class_names.map_or_else(|| k.to_string(), |names| names[k].clone());
                    Field::new(format!("{prefix}{class}"), value_type.clone(), true)
                };
                (None, (0..classes).map(field).collect())
            }
        };
        let mut all: Vec<FieldRef> = schema.fields().iter().map(Arc::clone).collect();
        let places = fields.into_iter().map(|field| {
            let same = all.iter().position(|known| known.name() == field.name());
            let place = same.unwrap_or(all.len());
            match same {
                Some(place) => all[place] = field.into(),
                None => all.push(field.into()),
            }
            place
        });
        let places = places.collect();
        Self {
            schema: Arc::new(Schema::new_with_metadata(all, schema.metadata().clone())),
            list,
            classes,
            places,
            dtype,
        }
    }

    /// The columns of the table with the results.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The type of the results.
    pub fn dtype(&self) -> OutputType {
        self.dtype
    }

    /// The batch with results of [`dtype`](Self::dtype); the rows `without` have none.
    ///
    /// # Panics
    /// If the results are not those of the batch, or of another type.
    pub fn add<T: ArrowPrimitiveType>(
        &self,
        batch: &RecordBatch,
        results: Array2<T::Native>,
        without: &[usize],
    ) -> RecordBatch {
        let (rows, classes) = (batch.num_rows(), self.classes);
        let nulls = (!without.is_empty()).then(|| {
            let mut valid = vec![true; rows];
            without.iter().for_each(|&row| valid[row] = false);
            NullBuffer::from(valid)
        });
        let primitive = |values: Vec<T::Native>, nulls| -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
        };
        let new: Vec<ArrayRef> = match &self.list {
            None => (0..classes)
                .map(|k| primitive(results.column(k).to_vec(), nulls.clone()))
                .collect(),
            Some(dtype) => {
                let values = primitive(results.into_raw_vec_and_offset().0, None);
                vec![lists(dtype, rows, classes, values, nulls)]
            }
        };
        let mut columns = batch.columns().to_vec();
        for (&place, column) in self.places.iter().zip(new) {
            match columns.get_mut(place) {
                Some(old) => *old = column,
                None => columns.push(column),
            }
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .expect("columns of the batch's length and of the schema's types")
    }
}

/// A column of lists of one length.
fn lists(
    dtype: &DataType,
    rows: usize,
    length: usize,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    fn by_offsets<O: OffsetSizeTrait>(
        field: &FieldRef,
        lengths: impl IntoIterator<Item = usize>,
        values: ArrayRef,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        let offsets = OffsetBuffer::<O>::from_lengths(lengths);
        Arc::new(GenericListArray::new(
            Arc::clone(field),
            offsets,
            values,
            nulls,
        ))
    }
    let lengths = std::iter::repeat_n(length, rows);
    match dtype {
        DataType::FixedSizeList(field, size) => {
            let field = Arc::clone(field);
            Arc::new(FixedSizeListArray::new(field, *size, values, nulls))
        }
        DataType::LargeList(field) => by_offsets::<i64>(field, lengths, values, nulls),
        DataType::List(field) => by_offsets::<i32>(field, lengths, values, nulls),
        _ => unreachable!("a column of lists"),
    }
}
