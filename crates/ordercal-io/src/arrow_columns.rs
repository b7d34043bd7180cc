//! The columns of Arrow's record batches as arrays of numbers or text.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema};

use crate::array::{AnyArray, ElementType, Values};
use crate::columns::{self, Header, TableColumns};
use crate::data_ref::DataRef;
use crate::error::{Error, Result, clean};
use crate::labels::to_f64;
use crate::reader::ReadOptions;
use crate::row_source::Wanted;

/// Whether a column holds lists.
pub(crate) fn is_list(dtype: &DataType) -> bool {
    matches!(
        dtype,
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)
    )
}

/// The names of a table's columns.
pub(crate) fn column_names(schema: &Schema) -> Vec<String> {
    let fields = schema.fields().iter();
    fields.map(|field| clean(field.name())).collect()
}

/// Finds the columns of a table.
pub(crate) fn find_columns(
    data: &DataRef,
    options: &ReadOptions,
    wanted: Wanted,
    schema: &Schema,
) -> Result<TableColumns> {
    let header = Header {
        names: &column_names(schema),
        named: true,
        is_list: &|column| is_list(schema.field(column).data_type()),
    };
    columns::find(data, &header, options, wanted)
}

/// A column and the row at which reading it starts, for errors.
pub(crate) struct ColumnPlace<'a> {
    pub(crate) path: &'a Path,
    pub(crate) column: &'a str,
    pub(crate) row: usize,
}

impl ColumnPlace<'_> {
    pub(crate) fn wrong_type(&self, found: &str, expected: &'static str) -> Error {
        Error::wrong_type(self.path, self.column, clean(found), expected)
    }

    pub(crate) fn missing(&self, row: usize) -> Error {
        Error::MissingValue {
            path: self.path.to_path_buf(),
            row: self.row + row,
            column: self.column.to_owned(),
        }
    }
}

/// The row of the first null, if a row has `per_row` values.
fn first_null(array: &dyn Array, per_row: usize) -> Option<usize> {
    let nulls = array.logical_nulls().filter(|n| n.null_count() > 0)?;
    let position = (0..array.len()).find(|&i| nulls.is_null(i))?;
    Some(position / per_row.max(1))
}

pub(crate) fn check_number(array: AnyArray, place: &ColumnPlace<'_>) -> Result<AnyArray> {
    if array.dtype.is_text() {
        return Err(place.wrong_type("text", "scores are numbers"));
    }
    Ok(array)
}

/// A column of weights.
pub(crate) fn weights_of(array: &ArrayRef, place: &ColumnPlace<'_>) -> Result<AnyArray> {
    match flat(array, place)? {
        array if array.dtype.is_text() => Err(place.wrong_type("text", "weights are numbers")),
        array => Ok(array),
    }
}

/// A column of single values.
pub(crate) fn flat(array: &ArrayRef, place: &ColumnPlace<'_>) -> Result<AnyArray> {
    let (dtype, values) = values(array, place)?;
    if let Some(row) = first_null(array, 1) {
        return Err(place.missing(row));
    }
    Ok(AnyArray::vector(dtype, values))
}

pub(crate) fn values(array: &ArrayRef, place: &ColumnPlace<'_>) -> Result<(ElementType, Values)> {
    macro_rules! ints {
        ($type:ty) => {
            Values::Int(
                array
                    .as_primitive::<$type>()
                    .values()
                    .iter()
                    .map(|&v| i64::try_from(v).unwrap_or(i64::MAX))
                    .collect(),
            )
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            array.as_primitive::<$type>().values().to_vec()
        };
    }
    macro_rules! decimals {
        ($type:ty, $scale:expr) => {{
            let unit = 10_f64.powi(i32::from(*$scale));
            let values = array.as_primitive::<$type>().values().iter();
            let values = values.map(|&v| v as f64 / unit).collect();
            (ElementType::F64, Values::F64(values))
        }};
    }
    let texts = |texts: &mut dyn Iterator<Item = Option<&str>>| {
        let texts = texts.map(|t| t.unwrap_or_default().to_owned());
        (ElementType::Text, Values::Text(texts.collect()))
    };
    Ok(match array.data_type() {
        DataType::Float16 => (ElementType::F16, Values::F16(floats!(Float16Type))),
        DataType::Float32 => (ElementType::F32, Values::F32(floats!(Float32Type))),
        DataType::Float64 => (ElementType::F64, Values::F64(floats!(Float64Type))),
        DataType::Int8 => (ElementType::I8, ints!(Int8Type)),
        DataType::Int16 => (ElementType::I16, ints!(Int16Type)),
        DataType::Int32 => (ElementType::I32, ints!(Int32Type)),
        DataType::Int64 => (ElementType::I64, ints!(Int64Type)),
        DataType::UInt8 => (ElementType::U8, ints!(UInt8Type)),
        DataType::UInt16 => (ElementType::U16, ints!(UInt16Type)),
        DataType::UInt32 => (ElementType::U32, ints!(UInt32Type)),
        DataType::UInt64 => (ElementType::U64, ints!(UInt64Type)),
        DataType::Decimal32(_, scale) => decimals!(Decimal32Type, scale),
        DataType::Decimal64(_, scale) => decimals!(Decimal64Type, scale),
        DataType::Decimal128(_, scale) => decimals!(Decimal128Type, scale),
        DataType::Boolean => {
            let bits = array.as_boolean().values().iter().map(i64::from);
            (ElementType::Bool, Values::Int(bits.collect()))
        }
        DataType::Utf8 => texts(&mut array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => texts(&mut array.as_string::<i64>().iter()),
        DataType::Utf8View => texts(&mut array.as_string_view().iter()),
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            let date = |row| days.value_as_date(row).map(|date| date.to_string());
            let dates = (0..days.len()).map(|row| date(row).unwrap_or_default());
            (ElementType::Text, Values::Text(dates.collect()))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let (dtype, values) = values(dictionary.values(), place)?;
            if let Some(row) = first_null(array, 1) {
                return Err(place.missing(row));
            }
            let keys = dictionary.normalized_keys();
            if keys.iter().any(|&key| key >= values.len()) {
                return Err(place.wrong_type("dictionary", "a key of it is out of range"));
            }
            (dtype, values.gather(keys.into_iter()))
        }
        other => {
            return Err(place.wrong_type(
                &format!("{other}"),
                "only floats, integers, booleans, dates and text are read",
            ));
        }
    })
}

/// The values of a column of lists, and for each row where its own begin and how many there are.
fn extents<'a>(
    array: &'a ArrayRef,
    place: &ColumnPlace<'_>,
) -> Result<(&'a ArrayRef, Vec<(usize, usize)>)> {
    macro_rules! by_offsets {
        ($offset:ty) => {{
            let array = array.as_list::<$offset>();
            let pairs = array.value_offsets().windows(2);
            let extents = pairs.map(|w| (w[0] as usize, (w[1] - w[0]) as usize));
            (array.values(), extents.collect())
        }};
    }
    Ok(match array.data_type() {
        DataType::FixedSizeList(_, length) => {
            let array = array.as_fixed_size_list();
            let length = usize::try_from(*length).unwrap_or(0);
            let start = array.value_offset_at(0);
            let extents = (0..array.len()).map(|row| (start + row * length, length));
            (array.values(), extents.collect())
        }
        DataType::List(_) => by_offsets!(i32),
        DataType::LargeList(_) => by_offsets!(i64),
        other => {
            return Err(place.wrong_type(
                &format!("{other}"),
                "scores are lists of floats, or one column per class",
            ));
        }
    })
}

/// The values of a column of lists, all of the same length, without a copy; and that length. It is `expected`, or that
/// of the first list.
pub(crate) fn list_values(
    array: &ArrayRef,
    place: &ColumnPlace<'_>,
    expected: Option<usize>,
) -> Result<(ArrayRef, usize)> {
    if let Some(row) = first_null(array, 1) {
        return Err(place.missing(row));
    }
    let (child, extents) = extents(array, place)?;
    let first = extents.first().copied().unwrap_or((0, 0));
    let expected = expected.unwrap_or(first.1);
    if let Some(row) = extents.iter().position(|&(_, length)| length != expected) {
        return Err(Error::RaggedRow {
            path: place.path.to_path_buf(),
            row: place.row + row,
            column: place.column.to_owned(),
            found: extents[row].1,
            expected,
        });
    }
    let child = child.slice(first.0, extents.len() * expected);
    if let Some(row) = first_null(&child, expected) {
        return Err(place.missing(row));
    }
    Ok((child, expected))
}

/// A column of lists as a matrix, with NaN in the place of every missing value, and in all of a row that is missing or of another length.
pub(crate) fn list_or_nan(
    array: &ArrayRef,
    place: &ColumnPlace<'_>,
    width: usize,
) -> Result<AnyArray> {
    let (child, extents) = extents(array, place)?;
    let (rows, cells) = (array.logical_nulls(), child.logical_nulls());
    let (dtype, values) = values(child, place)?;
    let (values, nan) = with_nan(values);
    let good = |row: usize| {
        extents[row].1 == width && rows.as_ref().is_none_or(|nulls| nulls.is_valid(row))
    };
    let cell = |position: usize| match &cells {
        Some(nulls) if nulls.is_null(position) => nan,
        _ => position,
    };
    let positions = (0..array.len()).flat_map(|row| {
        let (start, good) = (extents[row].0, good(row));
        (0..width).map(move |k| if good { cell(start + k) } else { nan })
    });
    Ok(AnyArray {
        shape: vec![array.len(), width],
        dtype: float_type(dtype),
        values: values.gather(positions),
    })
}

/// A column of single values, NaN where they are missing.
pub(crate) fn flat_or_nan(array: &ArrayRef, place: &ColumnPlace<'_>) -> Result<AnyArray> {
    let nulls = array.logical_nulls();
    let (dtype, values) = values(array, place)?;
    let (values, nan) = with_nan(values);
    let positions = (0..array.len()).map(|row| match &nulls {
        Some(nulls) if nulls.is_null(row) => nan,
        _ => row,
    });
    Ok(AnyArray::vector(
        float_type(dtype),
        values.gather(positions),
    ))
}

/// Floats with NaN behind them, and its position.
fn with_nan(values: Values) -> (Values, usize) {
    let position = values.len();
    let values = match values {
        Values::F16(mut values) => {
            values.push(half::f16::NAN);
            Values::F16(values)
        }
        Values::F32(mut values) => {
            values.push(f32::NAN);
            Values::F32(values)
        }
        // Text has no place among scores; whoever reads it is told so.
        Values::Text(mut values) => {
            values.push(String::new());
            Values::Text(values)
        }
        values => {
            let mut values = to_f64(&values);
            values.push(f64::NAN);
            Values::F64(values)
        }
    };
    (values, position)
}

/// The type of values after [`with_nan`].
fn float_type(dtype: ElementType) -> ElementType {
    match dtype {
        ElementType::F16 | ElementType::F32 | ElementType::Text => dtype,
        _ => ElementType::F64,
    }
}

/// Columns of scores as a matrix: in their own type if they share one, else as `f64`.
pub(crate) fn interleave(columns: Vec<AnyArray>, rows: usize) -> AnyArray {
    let width = columns.len();
    let first = columns.first().map_or(ElementType::F64, |c| c.dtype);
    let same = first.is_float() && columns.iter().all(|c| c.dtype == first);
    let dtype = if same { first } else { ElementType::F64 };
    let mut all = Values::with_capacity(dtype, rows * width);
    for column in columns {
        all.append(match same {
            true => column.values,
            false => Values::F64(to_f64(&column.values)),
        });
    }
    let cells = (0..rows).flat_map(|row| (0..width).map(move |column| column * rows + row));
    AnyArray {
        shape: vec![rows, width],
        dtype,
        values: all.gather(cells),
    }
}
