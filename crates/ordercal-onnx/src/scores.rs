//! The scores as a graph reads them, and the outputs that it writes.

use ordercal::{InputKind, ScoreKind};

use crate::graph::{Graph, Value};

/// N×K logits or log-probabilities inside a graph, with what most forms of model ask of them.
#[derive(Debug, Clone)]
pub struct GraphScores {
    /// K.
    pub classes: usize,
    /// The scores in 64 bits; `-inf` where a class is masked.
    pub scores: Value,
    /// Numbers that rank the classes as the input of the graph does; `-inf` where a class is masked.
    pub ranked: Value,
    /// N×K truth values: whether a class is masked.
    pub masked: Value,
    /// The scores, with the row's smallest finite score in place of `-inf`.
    pub filled: Value,
}

impl GraphScores {
    /// Reads the input of a graph.
    pub fn read(graph: &mut Graph, input: &Value, kind: ScoreKind, classes: usize) -> Self {
        let scores = graph.cast_f64(input);
        if kind != ScoreKind::Probs {
            return Self::new(graph, scores, classes);
        }
        // As in the library: a probability of 0 is raised to the smallest normal float, not masked, and logarithms
        // are stored in 32 bits. A steep curve would show the difference. Rounding can make two of them equal,
        // which the library avoids, so their order is that of the exact ones.
        let least = graph.double(f64::from(f32::MIN_POSITIVE));
        let raised = graph.op("Max", &[&scores, &least]);
        let exact = graph.op("Log", &[&raised]);
        let rounded = graph.cast_f32(&exact);
        let rounded = graph.cast_f64(&rounded);
        Self {
            ranked: exact,
            ..Self::new(graph, rounded, classes)
        }
    }

    /// Logits or log-probabilities.
    pub fn new(graph: &mut Graph, scores: Value, classes: usize) -> Self {
        let minus_infinity = graph.double(f64::NEG_INFINITY);
        let masked = graph.op("Equal", &[&scores, &minus_infinity]);
        let filled = fill(graph, &masked, &scores);
        Self {
            classes,
            ranked: scores.clone(),
            scores,
            masked,
            filled,
        }
    }

    /// `values` with each row's smallest one in place of those of masked classes.
    pub fn fill(&self, graph: &mut Graph, values: &Value) -> Value {
        fill(graph, &self.masked, values)
    }

    /// N×1: how many classes are not masked.
    pub fn possible(&self, graph: &mut Graph) -> Value {
        let possible = graph.op("Not", &[&self.masked]);
        let ones = graph.cast_f64(&possible);
        graph.reduce("ReduceSum", &ones)
    }

    /// N×1: what is subtracted from a row before a model reads it; `None` for nothing.
    pub fn shift(&self, graph: &mut Graph, kind: InputKind) -> Option<Value> {
        match kind {
            InputKind::Raw => None,
            InputKind::LogSoftmax => {
                let max = graph.reduce("ReduceMax", &self.scores);
                let below = graph.sub(&self.scores, &max);
                let terms = graph.op("Exp", &[&below]);
                let sum = graph.reduce("ReduceSum", &terms);
                let log = graph.op("Log", &[&sum]);
                Some(graph.add(&max, &log))
            }
            InputKind::Centred => {
                let sum = self.sum(graph, &self.scores);
                let count = self.possible(graph);
                Some(graph.op("Div", &[&sum, &count]))
            }
        }
    }

    /// The filled scores, shifted.
    pub fn shifted(&self, graph: &mut Graph, kind: InputKind) -> Value {
        match self.shift(graph, kind) {
            None => self.filled.clone(),
            Some(shift) => graph.sub(&self.filled, &shift),
        }
    }

    /// ln softmax(βx).
    pub fn tempered(&self, graph: &mut Graph, beta: f64) -> Value {
        let scaled = graph.scale(&self.scores, beta);
        graph.log_softmax(&scaled)
    }

    /// N×1: the sum of `values` over the classes that are not masked.
    pub fn sum(&self, graph: &mut Graph, values: &Value) -> Value {
        let zero = graph.double(0.0);
        let terms = graph.select(&self.masked, &zero, values);
        graph.reduce("ReduceSum", &terms)
    }

    /// `logits` with `-inf` where a class is masked.
    pub fn mask(&self, graph: &mut Graph, logits: &Value) -> Value {
        let minus_infinity = graph.double(f64::NEG_INFINITY);
        graph.select(&self.masked, &minus_infinity, logits)
    }
}

fn fill(graph: &mut Graph, masked: &Value, values: &Value) -> Value {
    let infinity = graph.double(f64::INFINITY);
    let possible = graph.select(masked, &infinity, values);
    let smallest = graph.reduce("ReduceMin", &possible);
    graph.select(masked, &smallest, values)
}

/// Rounds logits and their softmax to 32 bits and makes them the outputs `logits` and `probabilities`.
///
/// If the model preserves the order, classes with the row's largest score get the same result, and it is
/// strictly above that of every other class, also after rounding.
pub fn write_outputs(
    graph: &mut Graph,
    input: &Value,
    scores: &GraphScores,
    logits: &Value,
    keep_order: bool,
) {
    let probabilities = graph.softmax(logits);
    let probabilities = graph.cast_f32(&probabilities);
    if !keep_order {
        let logits = graph.cast_f32(logits);
        graph.output(&probabilities, "probabilities");
        graph.output(&logits, "logits");
        return;
    }
    let limit = f64::from(f32::MAX / 2.0);
    let logits = graph.clamp(logits, -limit, limit);
    let logits = graph.cast_f32(&logits);

    let largest = graph.reduce("ReduceMax", input);
    let on_top = graph.op("Equal", &[input, &largest]);
    let max = graph.reduce("ReduceMax", &probabilities);
    // The largest float below 1: a positive normal number times it is strictly smaller.
    let factor = graph.float(1.0_f32.next_down());
    let below = graph.mul(&max, &factor);
    let probabilities = separate_top(graph, &on_top, &max, &below, &probabilities);
    graph.output(&probabilities, "probabilities");

    let max = graph.reduce("ReduceMax", &logits);
    let size = graph.op("Abs", &[&max]);
    let epsilon = graph.float(f32::EPSILON);
    let gap = graph.mul(&size, &epsilon);
    let least = graph.float(f32::MIN_POSITIVE);
    let gap = graph.op("Max", &[&gap, &least]);
    let below = graph.sub(&max, &gap);
    let logits = separate_top(graph, &on_top, &max, &below, &logits);
    let minus_infinity = graph.float(f32::NEG_INFINITY);
    let logits = graph.select(&scores.masked, &minus_infinity, &logits);
    graph.output(&logits, "logits");
}

/// `max` for the top classes, at most `below` for the others.
fn separate_top(
    graph: &mut Graph,
    on_top: &Value,
    max: &Value,
    below: &Value,
    values: &Value,
) -> Value {
    let others = graph.op("Min", &[values, below]);
    graph.select(on_top, max, &others)
}
