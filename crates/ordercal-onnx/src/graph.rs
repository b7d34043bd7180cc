//! Builds a graph: each call adds a node and returns the name of what the node computes.

use super::proto::{
    ATTRIBUTE_INT, AttributeProto, DOUBLE, DimensionProto, FLOAT, FLOAT16, GraphProto, INT64,
    Length, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, TensorProto,
    TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};

use crate::InputType;

/// The version of the operator set: the first in which every reduction takes its axes as an input.
pub const OPSET: i64 = 18;

/// The version of the file format that belongs to that operator set.
const IR_VERSION: i64 = 8;

/// The name of an input, a constant or the output of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Value(String);

impl Value {
    /// An input of the graph.
    pub fn input(name: &str) -> Self {
        Self(name.to_owned())
    }
}

/// The nodes and constants that were added so far.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
}

impl Graph {
    /// Adds a node with one output.
    pub fn op(&mut self, op: &str, inputs: &[&Value]) -> Value {
        self.op_with(op, inputs, &[])
    }

    /// Adds a node with integer attributes and one output.
    pub fn op_with(&mut self, op: &str, inputs: &[&Value], attributes: &[(&str, i64)]) -> Value {
        let [value] = self.ops(op, inputs, attributes);
        value
    }

    /// Adds a node with several outputs.
    pub fn ops<const N: usize>(
        &mut self,
        op: &str,
        inputs: &[&Value],
        attributes: &[(&str, i64)],
    ) -> [Value; N] {
        let name = format!("{}_{}", op.to_lowercase(), self.nodes.len());
        let outputs: [Value; N] = std::array::from_fn(|index| match index {
            0 => Value(name.clone()),
            _ => Value(format!("{name}_{index}")),
        });
        self.nodes.push(NodeProto {
            input: inputs.iter().map(|v| v.0.clone()).collect(),
            output: outputs.iter().map(|v| v.0.clone()).collect(),
            name,
            op_type: op.to_owned(),
            attribute: attributes
                .iter()
                .map(|&(name, i)| AttributeProto {
                    name: name.to_owned(),
                    i,
                    r#type: ATTRIBUTE_INT,
                })
                .collect(),
        });
        outputs
    }

    /// Gives a value the name of an output of the graph.
    pub fn output(&mut self, value: &Value, name: &str) {
        self.nodes.push(NodeProto {
            input: vec![value.0.clone()],
            output: vec![name.to_owned()],
            name: format!("name_{name}"),
            op_type: "Identity".to_owned(),
            attribute: Vec::new(),
        });
    }

    fn constant(&mut self, data_type: i32, dims: &[usize], raw_data: Vec<u8>) -> Value {
        let name = format!("constant_{}", self.constants.len());
        self.constants.push(TensorProto {
            dims: dims.iter().map(|&d| d as i64).collect(),
            data_type,
            name: name.clone(),
            raw_data,
        });
        Value(name)
    }

    /// A constant of 64-bit floats.
    pub fn doubles(&mut self, values: &[f64], dims: &[usize]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(DOUBLE, dims, bytes)
    }

    /// A single 64-bit float.
    pub fn double(&mut self, value: f64) -> Value {
        self.doubles(&[value], &[])
    }

    /// A constant of 32-bit floats.
    pub fn floats(&mut self, values: &[f32], dims: &[usize]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(FLOAT, dims, bytes)
    }

    /// A single 32-bit float.
    pub fn float(&mut self, value: f32) -> Value {
        self.floats(&[value], &[])
    }

    /// A list of integers.
    pub fn integers(&mut self, values: &[i64]) -> Value {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.constant(INT64, &[values.len()], bytes)
    }

    /// a + b.
    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        self.op("Add", &[a, b])
    }

    /// a − b.
    pub fn sub(&mut self, a: &Value, b: &Value) -> Value {
        self.op("Sub", &[a, b])
    }

    /// a · b.
    pub fn mul(&mut self, a: &Value, b: &Value) -> Value {
        self.op("Mul", &[a, b])
    }

    /// value · factor.
    pub fn scale(&mut self, value: &Value, factor: f64) -> Value {
        let factor = self.double(factor);
        self.mul(value, &factor)
    }

    /// value + term.
    pub fn offset(&mut self, value: &Value, term: f64) -> Value {
        let term = self.double(term);
        self.add(value, &term)
    }

    /// value, clamped to [low, high].
    pub fn clamp(&mut self, value: &Value, low: f64, high: f64) -> Value {
        let (low, high) = (self.double(low), self.double(high));
        let value = self.op("Max", &[value, &low]);
        self.op("Min", &[&value, &high])
    }

    /// `yes` where the condition holds, `no` elsewhere.
    pub fn select(&mut self, condition: &Value, yes: &Value, no: &Value) -> Value {
        self.op("Where", &[condition, yes, no])
    }

    /// `ReduceMax`, `ReduceMin` or `ReduceSum` of every row: N×K to N×1.
    pub fn reduce(&mut self, op: &str, value: &Value) -> Value {
        let axes = self.integers(&[1]);
        self.op_with(op, &[value, &axes], &[("keepdims", 1)])
    }

    /// Converts to 64-bit floats.
    pub fn cast_f64(&mut self, value: &Value) -> Value {
        self.op_with("Cast", &[value], &[("to", DOUBLE.into())])
    }

    /// Converts to 32-bit floats.
    pub fn cast_f32(&mut self, value: &Value) -> Value {
        self.op_with("Cast", &[value], &[("to", FLOAT.into())])
    }

    /// Converts to 64-bit integers.
    pub fn cast_i64(&mut self, value: &Value) -> Value {
        self.op_with("Cast", &[value], &[("to", INT64.into())])
    }

    /// Columns `from..to` of every row.
    pub fn columns(&mut self, value: &Value, from: usize, to: usize) -> Value {
        let from = self.integers(&[from as i64]);
        let to = self.integers(&[to as i64]);
        let axis = self.integers(&[-1]);
        self.op("Slice", &[value, &from, &to, &axis])
    }

    /// The whole file: rows of K scores in, two matrices of the same shape out.
    pub fn into_model(
        self,
        classes: usize,
        input: InputType,
        about: &str,
        metadata: &[(&str, String)],
    ) -> ModelProto {
        let matrix = |name: &str, elem_type: i32| ValueInfoProto {
            name: name.to_owned(),
            r#type: Some(TypeProto {
                tensor_type: Some(TensorTypeProto {
                    elem_type,
                    shape: Some(TensorShapeProto {
                        dim: vec![
                            length(Length::Named("N".to_owned())),
                            length(Length::Known(classes as i64)),
                        ],
                    }),
                }),
            }),
        };
        let graph = GraphProto {
            node: self.nodes,
            name: "ordercal".to_owned(),
            initializer: self.constants,
            input: vec![matrix(
                "scores",
                match input {
                    InputType::F32 => FLOAT,
                    InputType::F16 => FLOAT16,
                },
            )],
            output: vec![matrix("probabilities", FLOAT), matrix("logits", FLOAT)],
        };
        ModelProto {
            ir_version: IR_VERSION,
            producer_name: "ordercal".to_owned(),
            producer_version: env!("CARGO_PKG_VERSION").to_owned(),
            doc_string: about.to_owned(),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto {
                domain: String::new(),
                version: OPSET,
            }],
            metadata_props: metadata
                .iter()
                .map(|(key, value)| StringStringEntryProto {
                    key: (*key).to_owned(),
                    value: value.clone(),
                })
                .collect(),
        }
    }
}

fn length(value: Length) -> DimensionProto {
    DimensionProto { value: Some(value) }
}
