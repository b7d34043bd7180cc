//! Tensors of the four element types in use.

use super::Failure;
use crate::proto::{BOOL, DOUBLE, FLOAT, INT64, TensorProto};

/// The elements of a tensor in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub enum Elements {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I64(Vec<i64>),
    Bool(Vec<bool>),
}

/// A tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub elements: Elements,
}

impl Tensor {
    /// A matrix of 32-bit floats.
    pub fn matrix(rows: usize, columns: usize, values: Vec<f32>) -> Self {
        Self {
            shape: vec![rows, columns],
            elements: Elements::F32(values),
        }
    }

    /// The elements, if they are 32-bit floats.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match &self.elements {
            Elements::F32(values) => Some(values),
            _ => None,
        }
    }

    /// The elements, if they are 64-bit floats.
    pub fn as_f64(&self) -> Result<&[f64], Failure> {
        match &self.elements {
            Elements::F64(values) => Ok(values),
            _ => Err("64-bit floats are needed".to_owned()),
        }
    }

    /// The elements, if they are truth values.
    pub fn as_bool(&self) -> Result<&[bool], Failure> {
        match &self.elements {
            Elements::Bool(values) => Ok(values),
            _ => Err("truth values are needed".to_owned()),
        }
    }

    /// The elements, if they are integers.
    pub fn as_i64(&self) -> Result<&[i64], Failure> {
        match &self.elements {
            Elements::I64(values) => Ok(values),
            _ => Err("integers are needed".to_owned()),
        }
    }

    /// Decodes a constant of a graph.
    pub fn from_proto(proto: &TensorProto) -> Result<Self, Failure> {
        let shape: Vec<usize> = proto.dims.iter().map(|&d| d as usize).collect();
        let bytes = proto.raw_data.as_slice();
        let elements = match proto.data_type {
            FLOAT => Elements::F32(decode(bytes, f32::from_le_bytes)),
            DOUBLE => Elements::F64(decode(bytes, f64::from_le_bytes)),
            INT64 => Elements::I64(decode(bytes, i64::from_le_bytes)),
            BOOL => Elements::Bool(bytes.iter().map(|&b| b != 0).collect()),
            other => return Err(format!("element type {other}")),
        };
        let tensor = Self { shape, elements };
        if tensor.len() != tensor.shape.iter().product::<usize>() {
            return Err(format!("{} is of another size than its shape", proto.name));
        }
        Ok(tensor)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match &self.elements {
            Elements::F32(values) => values.len(),
            Elements::F64(values) => values.len(),
            Elements::I64(values) => values.len(),
            Elements::Bool(values) => values.len(),
        }
    }

    /// The elements at the given positions, in another shape.
    pub fn pick(&self, shape: Vec<usize>, places: &[usize]) -> Self {
        let elements = match &self.elements {
            Elements::F32(values) => Elements::F32(places.iter().map(|&p| values[p]).collect()),
            Elements::F64(values) => Elements::F64(places.iter().map(|&p| values[p]).collect()),
            Elements::I64(values) => Elements::I64(places.iter().map(|&p| values[p]).collect()),
            Elements::Bool(values) => Elements::Bool(places.iter().map(|&p| values[p]).collect()),
        };
        Self { shape, elements }
    }

    /// An axis that may be negative, counted from the front.
    pub fn axis(&self, axis: i64) -> Result<usize, Failure> {
        let rank = self.shape.len() as i64;
        let counted = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&counted) {
            Ok(counted as usize)
        } else {
            Err(format!("axis {axis} of {rank}"))
        }
    }

    /// The tensor broadcast to a larger shape.
    pub fn broadcast(&self, shape: &[usize]) -> Result<Self, Failure> {
        if self.shape == shape {
            return Ok(self.clone());
        }
        let lead = shape
            .len()
            .checked_sub(self.shape.len())
            .ok_or("a smaller shape")?;
        let fits = (self.shape.iter().zip(&shape[lead..])).all(|(a, b)| a == b || *a == 1);
        if !fits {
            return Err(format!("{:?} cannot be broadcast to {shape:?}", self.shape));
        }
        let places: Vec<usize> = (0..shape.iter().product())
            .map(|place| {
                let (mut rest, mut source, mut stride) = (place, 0, 1);
                for (axis, &length) in shape.iter().enumerate().rev() {
                    let index = rest % length;
                    rest /= length;
                    if axis >= lead {
                        let own = self.shape[axis - lead];
                        source += stride * if own == 1 { 0 } else { index };
                        stride *= own;
                    }
                }
                source
            })
            .collect();
        Ok(self.pick(shape.to_vec(), &places))
    }
}

fn decode<T, const SIZE: usize>(bytes: &[u8], one: fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|b| one(*b)).collect()
}

/// The shape that tensors broadcast to.
pub fn common_shape(tensors: &[&Tensor]) -> Vec<usize> {
    let rank = tensors.iter().map(|t| t.shape.len()).max().unwrap_or(0);
    let mut shape = vec![1; rank];
    for tensor in tensors {
        let lead = rank - tensor.shape.len();
        for (axis, &length) in tensor.shape.iter().enumerate() {
            if length != 1 {
                shape[lead + axis] = length;
            }
        }
    }
    shape
}
