//! Calibrated scores as columns of a record batch, in the layout that its scores have.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{
    ArrayRef, FixedSizeListArray, LargeListArray, ListArray, PrimitiveArray, RecordBatch,
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
    layout: Layout,
    classes: usize,
    /// For each column of the result its place in the schema.
    places: Vec<usize>,
    /// Null where a row has no result; otherwise there is one for every row.
    dtype: OutputType,
}

/// How a row is laid out.
enum Layout {
    FixedSizeList(FieldRef),
    List(FieldRef),
    LargeList(FieldRef),
    Wide,
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
        let (prefix, list) = KINDS
            .iter()
            .find(|known| known.0 == kind)
            .map_or(("", ""), |known| (known.1, known.2));
        let value_type = match dtype {
            OutputType::F32 => DataType::Float32,
            OutputType::F64 => DataType::Float64,
        };
        let (layout, fields) = match reader.score_columns() {
            ScoreColumns::List(column) => {
                let source = schema.field(*column);
                let inner = |field: &FieldRef| -> FieldRef {
                    Field::new(field.name(), value_type.clone(), true).into()
                };
                let (layout, dtype) = match source.data_type() {
                    DataType::FixedSizeList(field, _) => {
                        let (field, size) = (inner(field), classes as i32);
                        let dtype = DataType::FixedSizeList(Arc::clone(&field), size);
                        (Layout::FixedSizeList(field), dtype)
                    }
                    DataType::LargeList(field) => {
                        let field = inner(field);
                        (
                            Layout::LargeList(Arc::clone(&field)),
                            DataType::LargeList(field),
                        )
                    }
                    DataType::List(field) => {
                        let field = inner(field);
                        (Layout::List(Arc::clone(&field)), DataType::List(field))
                    }
                    _ => unreachable!("a column of lists"),
                };
                // What makes a fixed-size list a tensor.
                let extension = source.metadata().iter();
                let extension = extension.filter(|(key, _)| key.starts_with("ARROW:extension:"));
                let metadata: HashMap<_, _> =
                    extension.map(|(k, v)| (k.clone(), v.clone())).collect();
                let field = Field::new(name.unwrap_or(list), dtype, true).with_metadata(metadata);
                (layout, vec![field])
            }
            ScoreColumns::Wide(_) => {
                let prefix = name.unwrap_or(prefix);
                let field = |k: usize| {
                    let class = class_names.map_or_else(|| k.to_string(), |names| names[k].clone());
                    Field::new(format!("{prefix}{class}"), value_type.clone(), true)
                };
                (Layout::Wide, (0..classes).map(field).collect())
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
            layout,
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

    /// The batch with 32-bit results; the rows `without` have none.
    ///
    /// # Panics
    /// If the results are not those of the batch.
    pub fn add_f32(
        &self,
        batch: &RecordBatch,
        results: Array2<f32>,
        without: &[usize],
    ) -> RecordBatch {
        self.add::<Float32Type>(batch, results, without)
    }

    /// The batch with 64-bit results; the rows `without` have none.
    ///
    /// # Panics
    /// If the results are not those of the batch.
    pub fn add_f64(
        &self,
        batch: &RecordBatch,
        results: Array2<f64>,
        without: &[usize],
    ) -> RecordBatch {
        self.add::<Float64Type>(batch, results, without)
    }

    fn add<T: ArrowPrimitiveType>(
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
        let flat =
            |results: Array2<T::Native>| primitive(results.into_raw_vec_and_offset().0, None);
        let new: Vec<ArrayRef> = match &self.layout {
            Layout::Wide => (0..classes)
                .map(|k| primitive(results.column(k).to_vec(), nulls.clone()))
                .collect(),
            Layout::FixedSizeList(field) => {
                let (field, size) = (Arc::clone(field), classes as i32);
                vec![Arc::new(FixedSizeListArray::new(
                    field,
                    size,
                    flat(results),
                    nulls,
                ))]
            }
            Layout::List(field) => {
                let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(classes, rows));
                vec![Arc::new(ListArray::new(
                    Arc::clone(field),
                    offsets,
                    flat(results),
                    nulls,
                ))]
            }
            Layout::LargeList(field) => {
                let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(classes, rows));
                vec![Arc::new(LargeListArray::new(
                    Arc::clone(field),
                    offsets,
                    flat(results),
                    nulls,
                ))]
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
