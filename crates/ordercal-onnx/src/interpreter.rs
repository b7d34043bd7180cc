//! Runs a graph node by node, with plain loops written from the definitions of the operators. It shares no code
//! with the library, so that an export is checked by something else.

mod operators;
mod tensor;

use std::collections::BTreeMap;

use super::proto::{GraphProto, ModelProto, NodeProto};
pub use tensor::Tensor;

/// Why a graph could not be run. It never happens to a graph that this crate made.
pub type Failure = String;

/// Runs a model on rows of scores and returns its outputs by name.
///
/// # Errors
/// If a node is of a kind that is not known here, or its inputs do not fit.
pub fn run(model: &ModelProto, scores: Tensor) -> Result<BTreeMap<String, Tensor>, Failure> {
    let graph = model.graph.as_ref().ok_or("there is no graph")?;
    let mut values = BTreeMap::new();
    for constant in &graph.initializer {
        values.insert(constant.name.clone(), Tensor::from_proto(constant)?);
    }
    let input = graph.input.first().ok_or("there is no input")?;
    values.insert(input.name.clone(), scores);
    // A large graph has thousands of values: each is dropped after the last node that reads it.
    let mut last_reader = BTreeMap::new();
    for (place, node) in graph.node.iter().enumerate() {
        last_reader.extend(node.input.iter().map(|name| (name.as_str(), place)));
    }
    for (place, node) in graph.node.iter().enumerate() {
        step(node, &mut values).map_err(|e| format!("{} ({}): {e}", node.name, node.op_type))?;
        for name in &node.input {
            if last_reader.get(name.as_str()) == Some(&place) {
                values.remove(name);
            }
        }
    }
    outputs(graph, values)
}

fn step(node: &NodeProto, values: &mut BTreeMap<String, Tensor>) -> Result<(), Failure> {
    let find = |name: &String| {
        values
            .get(name)
            .ok_or(format!("{name} is not computed yet"))
    };
    let inputs: Vec<&Tensor> = node.input.iter().map(find).collect::<Result<_, _>>()?;
    let attributes: BTreeMap<&str, i64> = node
        .attribute
        .iter()
        .map(|a| (a.name.as_str(), a.i))
        .collect();
    let results = operators::run(&node.op_type, &inputs, &attributes)?;
    if results.len() != node.output.len() {
        return Err(format!("{} outputs", results.len()));
    }
    values.extend(node.output.iter().cloned().zip(results));
    Ok(())
}

fn outputs(
    graph: &GraphProto,
    mut values: BTreeMap<String, Tensor>,
) -> Result<BTreeMap<String, Tensor>, Failure> {
    let mut results = BTreeMap::new();
    for output in &graph.output {
        let value = values.remove(&output.name);
        let value = value.ok_or(format!("nothing computes {}", output.name))?;
        results.insert(output.name.clone(), value);
    }
    Ok(results)
}
