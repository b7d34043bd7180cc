//! Arrow's C data interface between Python libraries: capsules that hold schemas, arrays and streams.
//!
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>
#![allow(
    unsafe_code,
    reason = "what lies behind a capsule is known from its name alone"
)]

use std::ffi::CStr;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{
    Array, RecordBatch, RecordBatchIterator, RecordBatchOptions, RecordBatchReader, StructArray,
};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::errors::{refuse, wrong_type};

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";
const STREAM: &CStr = c"arrow_array_stream";

/// The batches of a table.
pub type Batches = Box<dyn RecordBatchReader + Send>;

/// What a library handed over.
pub enum Given {
    /// One batch.
    Batch(RecordBatch),
    /// A table, read as it is asked for.
    Stream(Batches),
}

impl Given {
    /// Takes a batch or a table of any library that speaks the protocol.
    pub fn take(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        if table.hasattr("__arrow_c_array__")? {
            let pair = table.call_method0("__arrow_c_array__")?;
            let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
            return Ok(Self::Batch(batch(&schema, &array)?));
        }
        if table.hasattr("__arrow_c_stream__")? {
            let stream = table.call_method0("__arrow_c_stream__")?;
            let stream: Bound<'_, PyCapsule> = stream.extract()?;
            let pointer = stream.pointer_checked(Some(STREAM))?.cast();
            // SAFETY: a capsule of this name holds a stream, which is moved out of it: its release is cleared.
            let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr()) };
            return Ok(Self::Stream(Box::new(reader.map_err(refuse)?)));
        }
        let found = table.get_type().name()?.to_string();
        Err(wrong_type(format!(
            "a record batch or a table is needed (of pyarrow, polars, duckdb or any other library with Arrow's C data \
             interface), not `{found}`"
        )))
    }

    /// Its columns.
    pub fn schema(&self) -> SchemaRef {
        match self {
            Self::Batch(batch) => batch.schema(),
            Self::Stream(reader) => reader.schema(),
        }
    }

    /// All of it as a stream.
    pub fn into_stream(self) -> Batches {
        match self {
            Self::Batch(batch) => one(batch),
            Self::Stream(reader) => reader,
        }
    }
}

fn one(batch: RecordBatch) -> Batches {
    let schema = batch.schema();
    Box::new(RecordBatchIterator::new([Ok(batch)], schema))
}

/// A batch from the two capsules of a struct array.
fn batch(schema: &Bound<'_, PyCapsule>, array: &Bound<'_, PyCapsule>) -> PyResult<RecordBatch> {
    let schema = schema
        .pointer_checked(Some(SCHEMA))?
        .cast::<FFI_ArrowSchema>();
    // SAFETY: a capsule of this name holds a schema, which lives as long as the capsule.
    let schema = Schema::try_from(unsafe { schema.as_ref() });
    let schema = schema.map_err(|_| {
        wrong_type("an array of structs is needed, one field per column".to_owned())
    })?;
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    let dtype = DataType::Struct(schema.fields().clone());
    // SAFETY: a capsule of this name holds an array, which is moved out of it: its release is cleared. The schema is
    // that of the array, as the protocol promises.
    let data = unsafe {
        let array = FFI_ArrowArray::from_raw(array.as_ptr());
        from_ffi_and_data_type(array, dtype)
    };
    let mut data = data.map_err(refuse)?;
    data.align_buffers();
    let rows = StructArray::from(data);
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let columns = rows.into_parts().1;
    RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(refuse)
}

fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(refuse)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

fn stream_capsule(py: Python<'_>, batches: Batches) -> PyResult<Bound<'_, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), STREAM)
}

/// A batch for any library that speaks the protocol.
#[pyclass(frozen, module = "ordercal._native")]
pub struct ArrowBatch {
    batch: RecordBatch,
}

impl ArrowBatch {
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }
}

#[pymethods]
impl ArrowBatch {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.batch.schema())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The protocol lets a producer that does not convert ignore the request.
        let _ = requested_schema;
        let data = StructArray::from(self.batch.clone()).into_data();
        let array = PyCapsule::new_with_value(py, FFI_ArrowArray::new(&data), ARRAY)?;
        Ok((schema_capsule(py, &self.batch.schema())?, array))
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        stream_capsule(py, one(self.batch.clone()))
    }
}

/// Batches that are computed while they are read, once.
#[pyclass(frozen, module = "ordercal._native")]
pub struct ArrowStream {
    schema: SchemaRef,
    batches: Mutex<Option<Batches>>,
}

impl ArrowStream {
    pub fn new(batches: Batches) -> Self {
        Self {
            schema: batches.schema(),
            batches: Mutex::new(Some(batches)),
        }
    }

    /// A stream of batches that are there already.
    pub fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        let batches = batches.into_iter().map(Ok::<_, ArrowError>);
        Self::new(Box::new(RecordBatchIterator::new(batches, schema)))
    }
}

#[pymethods]
impl ArrowStream {
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = self.batches.lock();
        let batches = batches.unwrap_or_else(PoisonError::into_inner).take();
        let batches = batches.ok_or_else(|| refuse("this stream was read already"))?;
        stream_capsule(py, batches)
    }
}
