//! Tensors of PyTorch in a pickle, whose values are in storages beside it.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::machine::{Id, Machine, Node};
use crate::array::{AnyArray, ElementType, Values, byte_count};
use crate::data_ref;
use crate::error::{Error, Result};

/// Where the bytes of a storage are in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorageBytes {
    pub(crate) start: u64,
    pub(crate) length: u64,
}

impl StorageBytes {
    /// Reads a part, which lies in the file.
    pub(crate) fn read(&self, path: &Path, from: u64, count: u64) -> Result<Vec<u8>> {
        let (mut file, _) = data_ref::open(path)?;
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
        file.seek(SeekFrom::Start(self.start + from))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(|e| Error::io(path, "read", e))?;
        Ok(bytes)
    }
}

/// A tensor: some values of a storage.
#[derive(Debug, Clone)]
pub(super) struct TensorNode {
    pub(super) dtype: ElementType,
    pub(super) shape: Vec<usize>,
    key: String,
    offset: usize,
    strides: Vec<usize>,
}

/// The type of the values of a storage, by the name of its class.
pub(super) fn storage_type(name: &str) -> Option<ElementType> {
    Some(match name {
        "FloatStorage" => ElementType::F32,
        "DoubleStorage" => ElementType::F64,
        "HalfStorage" => ElementType::F16,
        "BFloat16Storage" => ElementType::Bf16,
        "LongStorage" => ElementType::I64,
        "IntStorage" => ElementType::I32,
        "ShortStorage" => ElementType::I16,
        "CharStorage" => ElementType::I8,
        "ByteStorage" => ElementType::U8,
        "BoolStorage" => ElementType::Bool,
        _ => return None,
    })
}

/// Makes a storage of its persistent id: ("storage", class, key, device, number of values).
pub(super) fn storage(machine: &Machine, id: Id) -> Result<Node> {
    let wrong = || machine.refuse("a storage of PyTorch is not described as it should be");
    let parts = machine.small_tuple(id).ok_or_else(wrong)?;
    let &[what, class, key, _, count] = parts.as_slice() else {
        return Err(wrong());
    };
    let (Some("storage"), Node::StorageClass(dtype), Some(key), Node::Int(count)) = (
        machine.text(what),
        machine.node(class),
        machine.text(key),
        machine.node(count),
    ) else {
        return Err(wrong());
    };
    Ok(Node::Storage {
        dtype: *dtype,
        key: key.to_owned(),
        count: usize::try_from(*count).map_err(|_| wrong())?,
    })
}

/// Makes a tensor of the arguments of `_rebuild_tensor_v2`: storage, offset, shape and strides come first.
pub(super) fn tensor(machine: &mut Machine, arguments: &[Id]) -> Result<Node> {
    let wrong = "a tensor of PyTorch is not described as it should be";
    let &[storage, offset, shape, strides, ..] = arguments else {
        return Err(machine.refuse(wrong));
    };
    let counts = |id: Id| -> Option<Vec<usize>> {
        let items = machine.small_tuple(id)?;
        let count = |id: Id| match machine.node(id) {
            Node::Int(count) => usize::try_from(*count).ok(),
            _ => None,
        };
        items.into_iter().map(count).collect()
    };
    let (Node::Storage { dtype, key, count }, Node::Int(offset), Some(shape), Some(strides)) = (
        machine.node(storage),
        machine.node(offset),
        counts(shape),
        counts(strides),
    ) else {
        return Err(machine.refuse(wrong));
    };
    let offset = usize::try_from(*offset).ok();
    let values = byte_count(&shape, *dtype).map(|bytes| bytes / dtype.size());
    let (Some(offset), Some(values)) = (offset, values) else {
        return Err(machine.refuse(wrong));
    };
    // One past the last value that is used.
    let mut end = Some(offset);
    for (&extent, &stride) in shape.iter().zip(&strides) {
        let reach = stride.checked_mul(extent.saturating_sub(1));
        end = end
            .zip(reach)
            .and_then(|(end, reach)| end.checked_add(reach));
    }
    let fits = end.is_some_and(|end| end < *count) || values == 0;
    if shape.len() != strides.len() || !fits || values > *count {
        return Err(machine.refuse("a tensor of PyTorch has more values than its storage"));
    }
    let tensor = TensorNode {
        dtype: *dtype,
        key: key.clone(),
        offset,
        shape,
        strides,
    };
    machine.spend(tensor.key.len() + tensor.shape.len())?;
    Ok(Node::Tensor(Box::new(tensor)))
}

/// Reads the values of a tensor.
pub(super) fn build(
    path: &Path,
    name: &str,
    tensor: &TensorNode,
    storages: &BTreeMap<String, StorageBytes>,
) -> Result<AnyArray> {
    let size = tensor.dtype.size();
    let shape = &tensor.shape;
    let values: usize = shape.iter().product();
    let spans = shape.iter().zip(&tensor.strides);
    let span: usize = spans
        .map(|(extent, stride)| stride * extent.saturating_sub(1))
        .sum();
    let count = if values == 0 { 0 } else { span + 1 };
    let needed = (tensor.offset + count) as u64 * size as u64;
    let storage = storages.get(&tensor.key).copied();
    let storage = storage.filter(|storage| storage.length >= needed);
    let Some(storage) = storage else {
        return Err(Error::truncated(
            path,
            format!("`{name}`"),
            0,
            u128::from(needed),
            storages.get(&tensor.key).map_or(0, |s| s.length),
        ));
    };
    let raw = storage.read(path, (tensor.offset * size) as u64, (count * size) as u64)?;
    let stored = Values::decode(&raw, tensor.dtype, false);
    let positions = (0..values).map(|value| {
        let (mut rest, mut position) = (value, 0);
        for axis in (0..shape.len()).rev() {
            position += (rest % shape[axis]) * tensor.strides[axis];
            rest /= shape[axis];
        }
        position
    });
    Ok(AnyArray {
        shape: shape.clone(),
        dtype: tensor.dtype,
        values: stored.gather(positions),
    })
}
