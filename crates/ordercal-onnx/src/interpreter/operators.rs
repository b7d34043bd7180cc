//! The operators that graphs of this crate use, each only as far as they use it.

use std::collections::BTreeMap;

use super::Failure;
use super::tensor::{Elements, Tensor, common_shape};
use crate::proto::{DOUBLE, FLOAT, INT64};

type OneTensor = Result<Tensor, Failure>;

/// Runs one operator.
pub fn run(
    op: &str,
    inputs: &[&Tensor],
    attributes: &BTreeMap<&str, i64>,
) -> Result<Vec<Tensor>, Failure> {
    let attribute = |name: &str, default: i64| attributes.get(name).copied().unwrap_or(default);
    let input = |at: usize| inputs.get(at).copied().ok_or(format!("no input {at}"));
    let one = input(0)?;
    let result = match op {
        "Identity" => Ok(one.clone()),
        "Neg" => map(one, |v| -v, |v| -v),
        "Abs" => map(one, f32::abs, f64::abs),
        "Exp" => map(one, f32::exp, f64::exp),
        "Log" => map(one, f32::ln, f64::ln),
        "Floor" => map(one, f32::floor, f64::floor),
        "Relu" => map(one, |v| v.max(0.0), |v| v.max(0.0)),
        "Add" => fold(inputs, |a, b| a + b, |a, b| a + b),
        "Sub" => fold(inputs, |a, b| a - b, |a, b| a - b),
        "Mul" => fold(inputs, |a, b| a * b, |a, b| a * b),
        "Div" => fold(inputs, |a, b| a / b, |a, b| a / b),
        "Max" => fold(inputs, f32::max, f64::max),
        "Min" => fold(inputs, f32::min, f64::min),
        "Equal" => compare(one, input(1)?, |a, b| {
            a.partial_cmp(&b).is_some_and(|o| o.is_eq())
        }),
        "Greater" => compare(one, input(1)?, |a, b| a > b),
        "Not" => not(one),
        "Where" => choose(one, input(1)?, input(2)?),
        "Cast" => cast(one, attribute("to", 0)),
        "Softmax" => softmax(one, attribute("axis", -1), false),
        "LogSoftmax" => softmax(one, attribute("axis", -1), true),
        "ReduceMax" | "ReduceMin" | "ReduceSum" => {
            reduce(op, one, input(1)?, attribute("keepdims", 1) != 0)
        }
        "MatMul" => product(one, input(1)?),
        "CumSum" => running_sum(
            one,
            input(1)?,
            attribute("reverse", 0) != 0,
            attribute("exclusive", 0) != 0,
        ),
        "TopK" => {
            let largest = attribute("largest", 1) != 0;
            return sort(one, input(1)?, attribute("axis", -1), largest);
        }
        "Gather" => gather(one, input(1)?),
        "GatherElements" => gather_elements(one, input(1)?, attribute("axis", 0)),
        "ScatterElements" => scatter_elements(one, input(1)?, input(2)?, attribute("axis", 0)),
        "Slice" => slice(one, input(1)?, input(2)?, input(3)?),
        "Concat" => concat(inputs, attribute("axis", 0)),
        "Reshape" => reshape(one, input(1)?),
        "Pad" => pad(one, input(1)?, input(2)?),
        other => Err(format!("no operator {other}")),
    };
    Ok(vec![result?])
}

fn map(a: &Tensor, narrow: impl Fn(f32) -> f32, wide: impl Fn(f64) -> f64) -> OneTensor {
    let elements = match &a.elements {
        Elements::F32(a) => Elements::F32(a.iter().map(|&v| narrow(v)).collect()),
        Elements::F64(a) => Elements::F64(a.iter().map(|&v| wide(v)).collect()),
        _ => return Err("floats are needed".to_owned()),
    };
    Ok(Tensor {
        shape: a.shape.clone(),
        elements,
    })
}

fn fold(
    inputs: &[&Tensor],
    narrow: impl Fn(f32, f32) -> f32,
    wide: impl Fn(f64, f64) -> f64,
) -> OneTensor {
    let shape = common_shape(inputs);
    let mut result = inputs[0].broadcast(&shape)?;
    for next in &inputs[1..] {
        let next = next.broadcast(&shape)?;
        match (&mut result.elements, &next.elements) {
            (Elements::F32(a), Elements::F32(b)) => {
                a.iter_mut().zip(b).for_each(|(a, &b)| *a = narrow(*a, b));
            }
            (Elements::F64(a), Elements::F64(b)) => {
                a.iter_mut().zip(b).for_each(|(a, &b)| *a = wide(*a, b));
            }
            _ => return Err("floats of one type are needed".to_owned()),
        }
    }
    Ok(result)
}

fn compare(a: &Tensor, b: &Tensor, holds: impl Fn(f64, f64) -> bool) -> OneTensor {
    let shape = common_shape(&[a, b]);
    let (a, b) = (a.broadcast(&shape)?, b.broadcast(&shape)?);
    let truths = match (&a.elements, &b.elements) {
        // Every 32-bit float is a 64-bit float.
        (Elements::F32(a), Elements::F32(b)) => {
            let pairs = a.iter().zip(b);
            pairs.map(|(&a, &b)| holds(a.into(), b.into())).collect()
        }
        (Elements::F64(a), Elements::F64(b)) => {
            a.iter().zip(b).map(|(&a, &b)| holds(a, b)).collect()
        }
        // Column numbers, which 64-bit floats hold exactly.
        (Elements::I64(a), Elements::I64(b)) => {
            let pairs = a.iter().zip(b);
            pairs.map(|(&a, &b)| holds(a as f64, b as f64)).collect()
        }
        _ => return Err("numbers of one type are needed".to_owned()),
    };
    Ok(Tensor {
        shape,
        elements: Elements::Bool(truths),
    })
}

fn not(a: &Tensor) -> OneTensor {
    let values = a.as_bool()?.iter().map(|v| !v).collect();
    Ok(Tensor {
        shape: a.shape.clone(),
        elements: Elements::Bool(values),
    })
}

fn choose(condition: &Tensor, yes: &Tensor, no: &Tensor) -> OneTensor {
    let shape = common_shape(&[condition, yes, no]);
    let condition = condition.broadcast(&shape)?;
    let (yes, no) = (yes.broadcast(&shape)?, no.broadcast(&shape)?);
    let condition = condition.as_bool()?;
    let pick = |at: usize| condition[at];
    let elements = match (&yes.elements, &no.elements) {
        (Elements::F32(y), Elements::F32(n)) => Elements::F32(
            (0..y.len())
                .map(|at| if pick(at) { y[at] } else { n[at] })
                .collect(),
        ),
        (Elements::F64(y), Elements::F64(n)) => Elements::F64(
            (0..y.len())
                .map(|at| if pick(at) { y[at] } else { n[at] })
                .collect(),
        ),
        _ => return Err("floats of one type are needed".to_owned()),
    };
    Ok(Tensor { shape, elements })
}

fn cast(a: &Tensor, to: i64) -> OneTensor {
    let wide: Vec<f64> = match &a.elements {
        Elements::F32(a) => a.iter().map(|&v| v.into()).collect(),
        Elements::F64(a) => a.clone(),
        Elements::Bool(a) => a.iter().map(|&v| f64::from(u8::from(v))).collect(),
        Elements::I64(_) => return Err("no cast from integers".to_owned()),
    };
    let elements = match to as i32 {
        FLOAT => Elements::F32(wide.iter().map(|&v| v as f32).collect()),
        DOUBLE => Elements::F64(wide),
        INT64 => Elements::I64(wide.iter().map(|&v| v as i64).collect()),
        other => return Err(format!("no cast to {other}")),
    };
    Ok(Tensor {
        shape: a.shape.clone(),
        elements,
    })
}

fn softmax(a: &Tensor, axis: i64, logarithm: bool) -> OneTensor {
    if a.axis(axis)? + 1 != a.shape.len() {
        return Err("the last axis is needed".to_owned());
    }
    let width = a.shape[a.shape.len() - 1];
    let mut values = a.as_f64()?.to_vec();
    for row in values.chunks_exact_mut(width) {
        let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|v| (v - top).exp()).sum();
        for value in row {
            *value = if logarithm {
                *value - top - sum.ln()
            } else {
                (*value - top).exp() / sum
            };
        }
    }
    Ok(Tensor {
        shape: a.shape.clone(),
        elements: Elements::F64(values),
    })
}

/// The length of an axis, between the products of the dimensions before and after it.
fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    let before = shape[..axis].iter().product();
    let behind = shape[axis + 1..].iter().product();
    (before, shape[axis], behind)
}

fn reduce(op: &str, a: &Tensor, axes: &Tensor, keep: bool) -> OneTensor {
    let &[axis] = axes.as_i64()? else {
        return Err("one axis is needed".to_owned());
    };
    let axis = a.axis(axis)?;
    let (before, length, behind) = around(&a.shape, axis);
    let values: Vec<f64> = match &a.elements {
        Elements::F32(a) => a.iter().map(|&v| v.into()).collect(),
        Elements::F64(a) => a.clone(),
        _ => return Err("floats are needed".to_owned()),
    };
    let mut results = Vec::with_capacity(before * behind);
    for lead in 0..before {
        for tail in 0..behind {
            let cells = (0..length).map(|at| values[(lead * length + at) * behind + tail]);
            results.push(match op {
                "ReduceMax" => cells.fold(f64::NEG_INFINITY, f64::max),
                "ReduceMin" => cells.fold(f64::INFINITY, f64::min),
                _ => cells.sum(),
            });
        }
    }
    let mut shape = a.shape.clone();
    if keep {
        shape[axis] = 1;
    } else {
        shape.remove(axis);
    }
    let elements = match a.elements {
        Elements::F32(_) => Elements::F32(results.iter().map(|&v| v as f32).collect()),
        _ => Elements::F64(results),
    };
    Ok(Tensor { shape, elements })
}

fn product(a: &Tensor, b: &Tensor) -> OneTensor {
    let (Elements::F32(left), Elements::F32(right)) = (&a.elements, &b.elements) else {
        return Err("32-bit floats are needed".to_owned());
    };
    let (&[rows, inner], &[again, columns]) = (a.shape.as_slice(), b.shape.as_slice()) else {
        return Err("matrices are needed".to_owned());
    };
    if inner != again {
        return Err(format!("{inner} columns for {again} rows"));
    }
    let mut result = vec![0.0_f32; rows * columns];
    for (row, result) in result.chunks_exact_mut(columns).enumerate() {
        for (column, result) in result.iter_mut().enumerate() {
            let terms = (0..inner).map(|at| {
                f64::from(left[row * inner + at]) * f64::from(right[at * columns + column])
            });
            *result = terms.sum::<f64>() as f32;
        }
    }
    Ok(Tensor::matrix(rows, columns, result))
}

fn running_sum(a: &Tensor, axis: &Tensor, reverse: bool, exclusive: bool) -> OneTensor {
    let axis = a.axis(axis.as_i64()?[0])?;
    if axis + 1 != a.shape.len() {
        return Err("the last axis is needed".to_owned());
    }
    let width = a.shape[axis];
    let mut values = a.as_f64()?.to_vec();
    for row in values.chunks_exact_mut(width) {
        let mut sum = 0.0;
        for at in 0..width {
            let cell = &mut row[if reverse { width - 1 - at } else { at }];
            let value = *cell;
            *cell = if exclusive { sum } else { sum + value };
            sum += value;
        }
    }
    Ok(Tensor {
        shape: a.shape.clone(),
        elements: Elements::F64(values),
    })
}

/// `TopK` of all elements: each row sorted, and the column that each element came from.
fn sort(a: &Tensor, count: &Tensor, axis: i64, largest: bool) -> Result<Vec<Tensor>, Failure> {
    let axis = a.axis(axis)?;
    let width = a.shape[axis];
    if axis + 1 != a.shape.len() || count.as_i64()? != [width as i64] {
        return Err("whole rows along the last axis are needed".to_owned());
    }
    let values = a.as_f64()?;
    let mut places = Vec::with_capacity(values.len());
    let mut indices = Vec::with_capacity(values.len());
    for (row, values) in values.chunks_exact(width).enumerate() {
        let mut order: Vec<usize> = (0..width).collect();
        // A stable sort, as ONNX asks for: of equal elements the one with the smaller index comes first.
        order.sort_by(|&i, &j| {
            let (first, second) = if largest { (j, i) } else { (i, j) };
            let compared = values[first].partial_cmp(&values[second]);
            compared.expect("no NaN is sorted")
        });
        places.extend(order.iter().map(|&at| row * width + at));
        indices.extend(order.iter().map(|&at| at as i64));
    }
    let shape = a.shape.clone();
    let elements = Elements::I64(indices);
    Ok(vec![
        a.pick(shape.clone(), &places),
        Tensor { shape, elements },
    ])
}

fn index(at: i64, length: usize) -> Result<usize, Failure> {
    match usize::try_from(at) {
        Ok(at) if at < length => Ok(at),
        _ => Err(format!("index {at} of {length}")),
    }
}

fn gather(table: &Tensor, indices: &Tensor) -> OneTensor {
    let places: Vec<usize> = indices
        .as_i64()?
        .iter()
        .map(|&at| index(at, table.len()))
        .collect::<Result<_, _>>()?;
    if table.shape.len() != 1 {
        return Err("a list is needed".to_owned());
    }
    Ok(table.pick(indices.shape.clone(), &places))
}

/// The position in `a` that each column number of `indices` refers to.
fn positions(a: &Tensor, indices: &Tensor, axis: i64) -> Result<Vec<usize>, Failure> {
    let (&[rows, width], &[again, columns]) = (a.shape.as_slice(), indices.shape.as_slice()) else {
        return Err("matrices are needed".to_owned());
    };
    if a.axis(axis)? != 1 || rows != again {
        return Err("matrices with the same rows are needed".to_owned());
    }
    let cells = indices.as_i64()?.iter().enumerate();
    cells
        .map(|(at, &column)| Ok(at / columns * width + index(column, width)?))
        .collect()
}

fn gather_elements(a: &Tensor, indices: &Tensor, axis: i64) -> OneTensor {
    Ok(a.pick(indices.shape.clone(), &positions(a, indices, axis)?))
}

fn scatter_elements(a: &Tensor, indices: &Tensor, updates: &Tensor, axis: i64) -> OneTensor {
    let mut values = a.as_f64()?.to_vec();
    let places = positions(a, indices, axis)?;
    for (place, &update) in places.into_iter().zip(updates.as_f64()?) {
        values[place] = update;
    }
    Ok(Tensor {
        shape: a.shape.clone(),
        elements: Elements::F64(values),
    })
}

fn slice(a: &Tensor, from: &Tensor, to: &Tensor, axis: &Tensor) -> OneTensor {
    let axis = a.axis(axis.as_i64()?[0])?;
    let (before, length, behind) = around(&a.shape, axis);
    let (from, to) = (from.as_i64()?[0] as usize, to.as_i64()?[0] as usize);
    if from > to || to > length {
        return Err(format!("{from}..{to} of {length}"));
    }
    let mut places = Vec::new();
    for lead in 0..before {
        places.extend((lead * length + from) * behind..(lead * length + to) * behind);
    }
    let mut shape = a.shape.clone();
    shape[axis] = to - from;
    Ok(a.pick(shape, &places))
}

fn concat(inputs: &[&Tensor], axis: i64) -> OneTensor {
    let [a, b] = inputs else {
        return Err("two inputs are needed".to_owned());
    };
    let axis = a.axis(axis)?;
    let (before, first, behind) = around(&a.shape, axis);
    let (again, second, tail) = around(&b.shape, axis);
    if before != again || behind != tail {
        return Err(format!("{:?} beside {:?}", a.shape, b.shape));
    }
    // The elements of both, one tensor after the other, from which each row is picked.
    let mut all = (*a).clone();
    match (&mut all.elements, &b.elements) {
        (Elements::F64(a), Elements::F64(b)) => a.extend(b),
        (Elements::Bool(a), Elements::Bool(b)) => a.extend(b),
        _ => return Err("elements of one type are needed".to_owned()),
    }
    let mut places = Vec::new();
    for lead in 0..before {
        places.extend(lead * first * behind..(lead + 1) * first * behind);
        let start = a.len();
        places.extend(start + lead * second * behind..start + (lead + 1) * second * behind);
    }
    let mut shape = a.shape.clone();
    shape[axis] = first + second;
    Ok(all.pick(shape, &places))
}

/// `Reshape` to rows of a given width.
fn reshape(a: &Tensor, shape: &Tensor) -> OneTensor {
    let &[-1, width] = shape.as_i64()? else {
        return Err("a width alone is needed".to_owned());
    };
    let width = width as usize;
    if width == 0 || !a.len().is_multiple_of(width) {
        return Err(format!("{:?} in rows of {width}", a.shape));
    }
    Ok(Tensor {
        shape: vec![a.len() / width, width],
        elements: a.elements.clone(),
    })
}

/// `Pad` at the end of the rows of a matrix.
fn pad(a: &Tensor, ends: &Tensor, value: &Tensor) -> OneTensor {
    let (&[rows, width], &[0, 0, 0, more]) = (a.shape.as_slice(), ends.as_i64()?) else {
        return Err("a matrix with more columns at its end is needed".to_owned());
    };
    let &[value] = value.as_f64()? else {
        return Err("one value is needed".to_owned());
    };
    let padded = width + more as usize;
    let mut values = Vec::with_capacity(rows * padded);
    for row in a.as_f64()?.chunks_exact(width) {
        values.extend_from_slice(row);
        values.resize(values.len() + more as usize, value);
    }
    Ok(Tensor {
        shape: vec![rows, padded],
        elements: Elements::F64(values),
    })
}
