//! The constructors that a pickle may call.

use super::machine::{Id, Machine, Node};
use crate::archive::UnreadableType;
use crate::array::{AnyArray, ElementType, Values, byte_count};
use crate::error::{Error, Result};
use crate::npy::parse_descr;

/// A constructor that may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Constructor {
    /// `numpy.dtype`.
    Type,
    /// `numpy.ndarray`, only as an argument.
    Array,
    /// `_reconstruct`: an empty array, filled by the state that follows.
    Reconstruct,
    /// `_frombuffer`: an array from bytes, protocol 5.
    FromBuffer,
    /// `scalar`: one number.
    Scalar,
    /// `_codecs.encode`: how protocol 2 of Python 3 writes bytes.
    Encode,
    /// `collections.OrderedDict`.
    Dict,
    /// `_rebuild_tensor_v2` of PyTorch.
    Tensor,
    /// `_rebuild_parameter` of PyTorch: a tensor that is trained.
    Parameter,
}

impl Constructor {
    /// Both names are needed: numpy 2 renamed its inner module `core` to `_core`.
    pub(super) fn find(module: &str, name: &str) -> Option<Self> {
        Some(match (module, name) {
            ("numpy", "dtype") => Self::Type,
            ("numpy", "ndarray") => Self::Array,
            ("numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct") => {
                Self::Reconstruct
            }
            ("numpy.core.numeric" | "numpy._core.numeric", "_frombuffer") => Self::FromBuffer,
            ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar") => Self::Scalar,
            ("_codecs", "encode") => Self::Encode,
            ("collections", "OrderedDict") => Self::Dict,
            ("torch._utils", "_rebuild_tensor_v2") => Self::Tensor,
            ("torch._utils", "_rebuild_parameter") => Self::Parameter,
            _ => return None,
        })
    }

    /// Whether it is one of PyTorch's.
    pub(super) fn is_torch(self) -> bool {
        matches!(self, Self::Tensor | Self::Parameter)
    }
}

/// A `numpy.dtype`.
#[derive(Debug, Clone)]
pub(super) struct TypeNode {
    /// The name without the byte order, such as `f4`.
    code: String,
    big_endian: bool,
    fields: bool,
}

impl TypeNode {
    fn dtype(&self) -> Result<ElementType, UnreadableType> {
        if self.fields {
            return Err(UnreadableType::Other("a record of several fields".into()));
        }
        Ok(parse_descr(&self.code)?.0)
    }
}

/// A `numpy.ndarray`, not decoded yet.
#[derive(Debug, Clone)]
pub(super) struct ArrayNode {
    pub(super) shape: Vec<usize>,
    /// The type and the bytes, once they are known.
    content: Option<(TypeNode, Id)>,
    fortran: bool,
}

impl ArrayNode {
    pub(super) fn dtype(&self) -> Result<ElementType, UnreadableType> {
        match &self.content {
            Some((kind, _)) => kind.dtype(),
            None => Err(UnreadableType::Other("an array without data".into())),
        }
    }
}

/// Calls a constructor.
pub(super) fn construct(
    machine: &mut Machine,
    constructor: Constructor,
    arguments: &[Id],
) -> Result<Node> {
    match (constructor, arguments) {
        (Constructor::Type, &[code, ..]) => {
            let Some(code) = machine.text(code) else {
                return Err(machine.refuse("a numpy type must be named by text"));
            };
            let (code, big_endian) = match code.strip_prefix(['<', '>', '|', '=']) {
                Some(rest) => (rest.to_owned(), code.starts_with('>')),
                None => (code.to_owned(), false),
            };
            machine.spend(code.len())?;
            Ok(Node::Type(Box::new(TypeNode {
                code,
                big_endian,
                fields: false,
            })))
        }
        (Constructor::Reconstruct, &[class, ..]) => {
            if !matches!(machine.node(class), Node::Constructor(Constructor::Array)) {
                return Err(machine.refuse("only numpy.ndarray can be reconstructed"));
            }
            Ok(Node::Array(Box::new(ArrayNode {
                shape: Vec::new(),
                content: None,
                fortran: false,
            })))
        }
        (Constructor::FromBuffer, &[data, kind, shape, order]) => {
            let fortran = machine.text(order) == Some("F");
            array(machine, shape, kind, fortran, data)
        }
        (Constructor::Scalar, &[kind, data]) => scalar(machine, kind, data),
        (Constructor::Encode, &[text, ..]) => {
            let Some(text) = machine.text(text) else {
                return Err(machine.refuse("only text can be encoded"));
            };
            let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c).ok()).collect();
            let bytes = bytes.ok_or_else(|| machine.refuse("the text is not Latin-1"))?;
            machine.spend(bytes.len())?;
            Ok(Node::Owned(bytes))
        }
        (Constructor::Dict, []) => Ok(Node::Dict(Vec::new())),
        (Constructor::Tensor, arguments) => super::torch::tensor(machine, arguments),
        (Constructor::Parameter, &[tensor, ..]) => match machine.node(tensor) {
            Node::Tensor(tensor) => {
                let tensor = tensor.clone();
                machine.spend(tensor.shape.len())?;
                Ok(Node::Tensor(tensor))
            }
            _ => Err(machine.refuse("a parameter of PyTorch must be a tensor")),
        },
        _ => Err(machine.refuse("a numpy constructor is called with the wrong arguments")),
    }
}

/// Gives a type its byte order, or an array its type, shape and data.
pub(super) fn set_state(machine: &mut Machine, object: Id, state: Id) -> Result<()> {
    let Some(state) = machine.small_tuple(state) else {
        return Err(machine.refuse("a state must be a tuple"));
    };
    match (machine.node(object), state.as_slice()) {
        // (version, byte order, sub-type, names, fields, size, alignment, flags)
        (Node::Type(_), &[_, order, subtype, names, ..]) => {
            let big_endian = machine.text(order) == Some(">");
            let is_none = |id: Id| matches!(machine.node(id), Node::None);
            let fields = !is_none(subtype) || !is_none(names);
            if let Node::Type(kind) = machine.node_mut(object) {
                kind.big_endian = big_endian;
                kind.fields = fields;
            }
            Ok(())
        }
        // (version, shape, type, column order, data)
        (Node::Array(_), &[_, shape, kind, order, data]) => {
            let fortran = match machine.node(order) {
                Node::Bool(order) => *order,
                Node::Int(order) => *order != 0,
                _ => return Err(machine.refuse("the order of an array must be true or false")),
            };
            let node = array(machine, shape, kind, fortran, data)?;
            *machine.node_mut(object) = node;
            Ok(())
        }
        _ => Err(machine.refuse("only numpy types and arrays have a state")),
    }
}

fn array(machine: &mut Machine, shape: Id, kind: Id, fortran: bool, data: Id) -> Result<Node> {
    let Node::Type(kind) = machine.node(kind) else {
        return Err(machine.refuse("the type of an array must be a numpy type"));
    };
    let kind = TypeNode::clone(kind);
    machine.spend(kind.code.len())?;
    let extents: Option<Vec<usize>> = match machine.node(shape) {
        Node::Int(extent) => usize::try_from(*extent).ok().map(|extent| vec![extent]),
        Node::Tuple(extents) => extents
            .iter()
            .map(|&id| match machine.node(id) {
                Node::Int(extent) => usize::try_from(*extent).ok(),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    let shape = extents.ok_or_else(|| machine.refuse("the shape of an array must hold counts"))?;
    machine.spend(shape.len())?;
    if let Ok(dtype) = kind.dtype() {
        let Some(data) = machine.data(data) else {
            return Err(machine.refuse("the data of an array must be bytes"));
        };
        if byte_count(&shape, dtype) != Some(data.len()) {
            return Err(machine.refuse("the bytes of an array are not as many as its shape says"));
        }
    }
    Ok(Node::Array(Box::new(ArrayNode {
        shape,
        content: Some((kind, data)),
        fortran,
    })))
}

fn scalar(machine: &Machine, kind: Id, data: Id) -> Result<Node> {
    let (Node::Type(kind), Some(data)) = (machine.node(kind), machine.data(data)) else {
        return Err(machine.refuse("a numpy number is made of a type and bytes"));
    };
    let dtype = kind.dtype();
    let dtype =
        dtype.map_err(|_| machine.refuse("a numpy number is of a type that is not read"))?;
    if dtype.is_text() || data.len() != dtype.size() {
        return Err(machine.refuse("a numpy number has bytes of another type"));
    }
    Ok(match Values::decode(data, dtype, kind.big_endian) {
        Values::Int(v) => Node::Int(v[0]),
        values => Node::Float(crate::labels::to_f64(&values)[0]),
    })
}

/// Decodes an array.
pub(super) fn build(machine: &Machine, array: &ArrayNode, name: &str) -> Result<AnyArray> {
    let no_data = || {
        Error::wrong_type(
            machine.path(),
            name,
            "an array without data",
            "data was expected",
        )
    };
    let (kind, data) = array.content.as_ref().ok_or_else(no_data)?;
    let (Ok(dtype), Some(data)) = (kind.dtype(), machine.data(*data)) else {
        return Err(no_data());
    };
    let values = Values::decode(data, dtype, kind.big_endian);
    if array.fortran && array.shape.len() > 1 {
        return Ok(AnyArray::from_fortran(array.shape.clone(), dtype, &values));
    }
    Ok(AnyArray {
        shape: array.shape.clone(),
        dtype,
        values,
    })
}
