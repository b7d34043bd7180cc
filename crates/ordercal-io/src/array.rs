//! Arrays of any type and shape, in row-major order.

use std::fmt;

use half::{bf16, f16};

/// The types of elements that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ElementType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    /// Bytes padded with zeros to this length, read as text.
    Bytes(usize),
    /// Unicode text of up to this many characters, 4 bytes each.
    Unicode(usize),
    /// Text of any length.
    Text,
}

impl ElementType {
    /// The size of one value in a file; 0 for text of any length, which no flat file holds.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::Bytes(length) => length,
            Self::Unicode(length) => length * 4,
            Self::Text => 0,
        }
    }

    /// Whether every value is a float.
    pub(crate) fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// Whether every value is text.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Bytes(_) | Self::Unicode(_) | Self::Text)
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "bool",
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::F16 => "float16",
            Self::Bf16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::Bytes(_) | Self::Unicode(_) | Self::Text => "text",
        })
    }
}

/// The values of an array in row-major order.
///
/// Integers and booleans are only ever labels, so all of them become `i64`. A `u64` above `i64::MAX` becomes
/// `i64::MAX`, which is no valid label either.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Int(Vec<i64>),
    Text(Vec<String>),
}

impl Values {
    /// No values yet, with room for `capacity`.
    pub(crate) fn with_capacity(dtype: ElementType, capacity: usize) -> Self {
        match dtype {
            ElementType::F16 => Self::F16(Vec::with_capacity(capacity)),
            ElementType::Bf16 => Self::Bf16(Vec::with_capacity(capacity)),
            ElementType::F32 => Self::F32(Vec::with_capacity(capacity)),
            ElementType::F64 => Self::F64(Vec::with_capacity(capacity)),
            ElementType::Bytes(_) | ElementType::Unicode(_) | ElementType::Text => {
                Self::Text(Vec::with_capacity(capacity))
            }
            _ => Self::Int(Vec::with_capacity(capacity)),
        }
    }

    /// Decodes the bytes of a whole number of values.
    pub(crate) fn decode(raw: &[u8], dtype: ElementType, big_endian: bool) -> Self {
        let mut values = Self::with_capacity(dtype, raw.len() / dtype.size().max(1));
        values.extend_from_raw(raw, dtype, big_endian);
        values
    }

    /// Decodes values and appends them; `self` was made for the same `dtype`.
    pub(crate) fn extend_from_raw(&mut self, raw: &[u8], dtype: ElementType, big_endian: bool) {
        macro_rules! unpack {
            ($type:ty) => {
                raw.chunks_exact(size_of::<$type>()).map(|chunk| {
                    let chunk = chunk.try_into().expect("chunks have the type's size");
                    if big_endian {
                        <$type>::from_be_bytes(chunk)
                    } else {
                        <$type>::from_le_bytes(chunk)
                    }
                })
            };
        }
        match self {
            Self::F16(values) => values.extend(unpack!(f16)),
            Self::Bf16(values) => values.extend(unpack!(bf16)),
            Self::F32(values) => values.extend(unpack!(f32)),
            Self::F64(values) => values.extend(unpack!(f64)),
            Self::Int(values) => match dtype {
                ElementType::Bool => values.extend(raw.iter().map(|&b| i64::from(b != 0))),
                ElementType::I8 => values.extend(unpack!(i8).map(i64::from)),
                ElementType::I16 => values.extend(unpack!(i16).map(i64::from)),
                ElementType::I32 => values.extend(unpack!(i32).map(i64::from)),
                ElementType::I64 => values.extend(unpack!(i64)),
                ElementType::U8 => values.extend(unpack!(u8).map(i64::from)),
                ElementType::U16 => values.extend(unpack!(u16).map(i64::from)),
                ElementType::U32 => values.extend(unpack!(u32).map(i64::from)),
                _ => values.extend(unpack!(u64).map(|v| i64::try_from(v).unwrap_or(i64::MAX))),
            },
            Self::Text(values) => {
                let texts = raw.chunks_exact(dtype.size().max(1));
                if let ElementType::Unicode(_) = dtype {
                    values.extend(texts.map(|text| decode_unicode(text, big_endian)));
                } else {
                    values.extend(texts.map(decode_bytes));
                }
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::F16(v) => v.len(),
            Self::Bf16(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Int(v) => v.len(),
            Self::Text(v) => v.len(),
        }
    }

    /// The values at the given positions.
    ///
    /// # Panics
    /// If a position is out of range.
    pub(crate) fn gather(&self, positions: impl Iterator<Item = usize>) -> Self {
        match self {
            Self::F16(v) => Self::F16(positions.map(|i| v[i]).collect()),
            Self::Bf16(v) => Self::Bf16(positions.map(|i| v[i]).collect()),
            Self::F32(v) => Self::F32(positions.map(|i| v[i]).collect()),
            Self::F64(v) => Self::F64(positions.map(|i| v[i]).collect()),
            Self::Int(v) => Self::Int(positions.map(|i| v[i]).collect()),
            Self::Text(v) => Self::Text(positions.map(|i| v[i].clone()).collect()),
        }
    }

    /// Appends the values of `other`, which is of the same type.
    pub(crate) fn append(&mut self, other: Self) {
        match (self, other) {
            (Self::F16(a), Self::F16(b)) => a.extend(b),
            (Self::Bf16(a), Self::Bf16(b)) => a.extend(b),
            (Self::F32(a), Self::F32(b)) => a.extend(b),
            (Self::F64(a), Self::F64(b)) => a.extend(b),
            (Self::Int(a), Self::Int(b)) => a.extend(b),
            (Self::Text(a), Self::Text(b)) => a.extend(b),
            _ => unreachable!("all rows of a source have the same type"),
        }
    }
}

/// numpy's `S` type: zeros at the end are padding.
fn decode_bytes(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw)
        .trim_end_matches('\0')
        .to_owned()
}

/// numpy's `U` type: 4 bytes a character, zeros at the end are padding.
fn decode_unicode(raw: &[u8], big_endian: bool) -> String {
    let mut text: String = raw
        .chunks_exact(4)
        .map(|c| {
            let c = [c[0], c[1], c[2], c[3]];
            let code = if big_endian {
                u32::from_be_bytes(c)
            } else {
                u32::from_le_bytes(c)
            };
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        })
        .collect();
    text.truncate(text.trim_end_matches('\0').len());
    text
}

/// An array with its shape.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnyArray {
    pub(crate) shape: Vec<usize>,
    pub(crate) dtype: ElementType,
    pub(crate) values: Values,
}

impl AnyArray {
    /// A one-dimensional array.
    pub(crate) fn vector(dtype: ElementType, values: Values) -> Self {
        Self {
            shape: vec![values.len()],
            dtype,
            values,
        }
    }

    /// An array whose values were stored in column-major order.
    pub(crate) fn from_fortran(shape: Vec<usize>, dtype: ElementType, values: &Values) -> Self {
        let values = values.gather(fortran_positions(&shape));
        Self {
            shape,
            dtype,
            values,
        }
    }

    /// Appends the rows of `more`, an array of the same source.
    pub(crate) fn append(&mut self, more: Self) {
        self.shape[0] += more.shape[0];
        self.values.append(more.values);
    }

    /// Some columns of a matrix, in any order.
    pub(crate) fn with_columns(self, columns: &[usize]) -> Self {
        let (rows, width) = (self.shape[0], self.shape[1]);
        let cells = (0..rows).flat_map(|row| columns.iter().map(move |c| row * width + c));
        Self {
            values: self.values.gather(cells),
            shape: vec![rows, columns.len()],
            ..self
        }
    }

    /// The first dimension; a single value counts as one row.
    pub(crate) fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }
}

/// For each value in row-major order, its position in column-major order.
fn fortran_positions(shape: &[usize]) -> impl Iterator<Item = usize> + use<> {
    let count: usize = shape.iter().product();
    let mut strides = Vec::with_capacity(shape.len());
    let mut stride = 1;
    for &extent in shape {
        strides.push(stride);
        stride *= extent;
    }
    let shape = shape.to_vec();
    let mut index = vec![0; shape.len()];
    let mut position = 0;
    (0..count).map(move |_| {
        let here = position;
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            position += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            position -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
        here
    })
}

/// The number of bytes of an array; `None` if it does not fit in a `usize`.
///
/// The product of the other dimensions must fit, too, if one dimension is 0: code elsewhere computes it.
pub(crate) fn byte_count(shape: &[usize], dtype: ElementType) -> Option<usize> {
    let product = |least: usize| {
        let mut extents = shape.iter().map(|&extent| extent.max(least));
        extents.try_fold(dtype.size(), |size: usize, extent| size.checked_mul(extent))
    };
    product(1).and(product(0))
}

/// A shape, for messages.
pub(crate) fn show_shape(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("({})", extents.join("×"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_endian_values_are_swapped() {
        let values = Values::decode(&[0x3f, 0x80, 0, 0], ElementType::F32, true);
        assert_eq!(values, Values::F32(vec![1.0]));
        let values = Values::decode(&[0xff, 0xfe], ElementType::I16, true);
        assert_eq!(values, Values::Int(vec![-2]));
    }

    #[test]
    fn the_largest_unsigned_label_stays_out_of_range() {
        let values = Values::decode(&[0xff; 8], ElementType::U64, false);
        assert_eq!(values, Values::Int(vec![i64::MAX]));
    }

    #[test]
    fn text_is_trimmed_of_padding() {
        let raw: Vec<u8> = ['é', '\0']
            .iter()
            .flat_map(|&c| (c as u32).to_le_bytes())
            .collect();
        assert_eq!(
            Values::decode(&raw, ElementType::Unicode(2), false),
            Values::Text(vec!["é".into()])
        );
        assert_eq!(
            Values::decode(b"ab\0c\0\0", ElementType::Bytes(3), false),
            Values::Text(vec!["ab".into(), "c".into()])
        );
    }

    #[test]
    fn column_order_becomes_row_order() {
        let stored = Values::Int(vec![0, 3, 1, 4, 2, 5]);
        let array = AnyArray::from_fortran(vec![2, 3], ElementType::I64, &stored);
        assert_eq!(array.values, Values::Int((0..6).collect()));
        let stored = Values::Int((0..24).collect());
        let cube = AnyArray::from_fortran(vec![2, 3, 4], ElementType::I64, &stored);
        // Position of [1, 2, 3] with strides 1, 2, 6.
        assert_eq!(
            cube.values.gather(std::iter::once(23)),
            Values::Int(vec![1 + 4 + 18])
        );
    }
}
