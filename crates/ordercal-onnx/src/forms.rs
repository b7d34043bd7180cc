//! Each form of model as a graph: rows of scores in, 64-bit logits out.
//!
//! What the library computes in 64 bits is computed in 64 bits here too, and networks in 32 as there. A row
//! of distinct scores therefore keeps its order up to the last rounding to 32 bits, and [`finish`] holds
//! the top class above the others even there.

mod diag;
mod linear;
mod network;
mod projected;

use ordercal::{InputKind, ModelParts, ScoreKind};

use super::OnnxError;
use super::graph::{Graph, Value};

/// Rows of scores and what every form asks of them.
#[derive(Debug, Clone)]
pub struct Rows {
    /// K.
    pub classes: usize,
    /// N×K in 64 bits; `-inf` where a class is masked.
    pub scores: Value,
    /// Where a class is masked.
    pub masked: Value,
    /// The scores with the row's smallest possible one in place of masked ones.
    pub filled: Value,
}

impl Rows {
    /// Rows of logits or log-probabilities.
    pub fn new(graph: &mut Graph, scores: Value, classes: usize) -> Self {
        let nothing = graph.double(f64::NEG_INFINITY);
        let masked = graph.op("Equal", &[&scores, &nothing]);
        let everything = graph.double(f64::INFINITY);
        let possible = graph.choose(&masked, &everything, &scores);
        let smallest = graph.reduce("ReduceMin", &possible, 1);
        let filled = graph.choose(&masked, &smallest, &scores);
        Self {
            classes,
            scores,
            masked,
            filled,
        }
    }

    /// N×1: how many classes are possible.
    pub fn possible(&self, graph: &mut Graph) -> Value {
        let not_masked = graph.op("Not", &[&self.masked]);
        let ones = graph.widen(&not_masked);
        graph.reduce("ReduceSum", &ones, 1)
    }

    /// N×1: what a row is shifted by; `None` for nothing.
    pub fn shift(&self, graph: &mut Graph, kind: InputKind) -> Option<Value> {
        match kind {
            InputKind::Raw => None,
            InputKind::LogSoftmax => {
                let top = graph.reduce("ReduceMax", &self.scores, 1);
                let below = graph.sub(&self.scores, &top);
                let terms = graph.op("Exp", &[&below]);
                let sum = graph.reduce("ReduceSum", &terms, 1);
                let log = graph.op("Log", &[&sum]);
                Some(graph.add(&top, &log))
            }
            InputKind::Centred => {
                let zero = graph.double(0.0);
                let terms = graph.choose(&self.masked, &zero, &self.scores);
                let sum = graph.reduce("ReduceSum", &terms, 1);
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

    /// Logarithms of softmax(βx).
    pub fn tempered(&self, graph: &mut Graph, beta: f64) -> Value {
        let scaled = graph.scale(&self.scores, beta);
        log_softmax(graph, &scaled)
    }

    /// Puts `-inf` where classes are masked.
    pub fn mask(&self, graph: &mut Graph, logits: &Value) -> Value {
        let nothing = graph.double(f64::NEG_INFINITY);
        graph.choose(&self.masked, &nothing, logits)
    }
}

/// The input of the graph as rows of logits or log-probabilities.
pub fn read(graph: &mut Graph, input: &Value, kind: ScoreKind, classes: usize) -> Rows {
    let mut scores = graph.widen(input);
    if kind == ScoreKind::Probs {
        // As the library reads them: zeros are clipped, not masked.
        let least = graph.double(f64::from(f32::MIN_POSITIVE));
        scores = graph.op("Max", &[&scores, &least]);
        scores = graph.op("Log", &[&scores]);
    }
    Rows::new(graph, scores, classes)
}

/// The logits of a model, `-inf` where classes are masked.
pub fn logits(graph: &mut Graph, parts: &ModelParts, rows: &Rows) -> Result<Value, OnnxError> {
    Ok(match parts {
        ModelParts::Uncalibrated { .. } => rows.scores.clone(),
        ModelParts::Ts { beta, .. } => graph.scale(&rows.scores, *beta),
        ModelParts::Ets(parts) => {
            let [tempered, original, uniform] = parts.weights;
            let mut terms = Vec::new();
            for (weight, beta) in [(tempered, parts.beta), (original, 1.0)] {
                if weight > 0.0 {
                    let logs = rows.tempered(graph, beta);
                    terms.push(graph.offset(&logs, weight.ln()));
                }
            }
            if uniform > 0.0 {
                let count = rows.possible(graph);
                let log = graph.op("Log", &[&count]);
                let total = graph.double(uniform.ln());
                terms.push(graph.sub(&total, &log));
            }
            let mixed = log_sum(graph, &terms);
            rows.mask(graph, &mixed)
        }
        ModelParts::Diag {
            input,
            range,
            slopes,
            ..
        } => diag::logits(graph, rows, *input, *range, slopes),
        ModelParts::Network(parts) => network::logits(graph, rows, parts),
        ModelParts::Linear(parts) => linear::logits(graph, rows, parts),
        ModelParts::Ordered { beta, inner } => {
            let inner = logits(graph, inner, rows)?;
            projected::logits(graph, rows, &inner, *beta)
        }
        ModelParts::Mixture { weights, members } => {
            let mut terms = Vec::new();
            for (weight, member) in weights.iter().zip(members) {
                let member = logits(graph, member, rows)?;
                let logs = log_softmax(graph, &member);
                terms.push(graph.offset(&logs, weight.ln()));
            }
            let mixed = log_sum(graph, &terms);
            rows.mask(graph, &mixed)
        }
        ModelParts::Chain { first, then } => {
            let first = logits(graph, first, rows)?;
            let between = log_softmax(graph, &first);
            let rows = Rows::new(graph, between, rows.classes);
            logits(graph, then, &rows)?
        }
        ModelParts::Logistic(_) => return Err(OnnxError::NoForm { form: "logistic" }),
        ModelParts::Curves(_) => return Err(OnnxError::NoForm { form: "curves" }),
        _ => return Err(OnnxError::NoForm { form: "this form" }),
    })
}

fn log_softmax(graph: &mut Graph, logits: &Value) -> Value {
    graph.op_with("LogSoftmax", &[logits], &[("axis", -1)])
}

/// ln Σ eᵗ of values that broadcast to N×K; in each cell at least one is finite, or the cell is masked later.
pub fn log_sum(graph: &mut Graph, terms: &[Value]) -> Value {
    let [first, rest @ ..] = terms else {
        unreachable!("a sum has a term");
    };
    if rest.is_empty() {
        return first.clone();
    }
    let all: Vec<&Value> = terms.iter().collect();
    let top = graph.op("Max", &all);
    let mut sum = None;
    for term in terms {
        let below = graph.sub(term, &top);
        let term = graph.op("Exp", &[&below]);
        sum = Some(match sum {
            None => term,
            Some(sum) => graph.add(&sum, &term),
        });
    }
    let log = graph.op("Log", &[&sum.expect("there is a term")]);
    graph.add(&top, &log)
}

/// Rounds logits and probabilities to 32 bits and names them; for a model that keeps the order, the top
/// class stays strictly above the others, and classes that share the top score share their result.
pub fn finish(graph: &mut Graph, input: &Value, rows: &Rows, logits: &Value, keep_order: bool) {
    let probabilities = graph.op_with("Softmax", &[logits], &[("axis", -1)]);
    let probabilities = graph.narrow(&probabilities);
    if !keep_order {
        let logits = graph.narrow(logits);
        graph.output(&probabilities, "probabilities");
        graph.output(&logits, "logits");
        return;
    }
    let limit = f64::from(f32::MAX / 2.0);
    let held = graph.hold(logits, -limit, limit);
    let logits = graph.narrow(&held);

    let largest = graph.reduce("ReduceMax", input, 1);
    let on_top = graph.op("Equal", &[input, &largest]);
    // The factor is the largest float below 1: what it gives is below any probability of a top class.
    let factor = graph.float(1.0_f32.next_down());
    let most = graph.reduce("ReduceMax", &probabilities, 1);
    let below = graph.mul(&most, &factor);
    let probabilities = under(graph, &on_top, &most, &below, &probabilities);
    graph.output(&probabilities, "probabilities");

    let most = graph.reduce("ReduceMax", &logits, 1);
    let size = graph.op("Abs", &[&most]);
    let unit = graph.float(f32::EPSILON);
    let unit = graph.mul(&size, &unit);
    let least = graph.float(f32::MIN_POSITIVE);
    let unit = graph.op("Max", &[&unit, &least]);
    let below = graph.sub(&most, &unit);
    let logits = under(graph, &on_top, &most, &below, &logits);
    let nothing = graph.float(f32::NEG_INFINITY);
    let logits = graph.choose(&rows.masked, &nothing, &logits);
    graph.output(&logits, "logits");
}

fn under(graph: &mut Graph, on_top: &Value, most: &Value, below: &Value, values: &Value) -> Value {
    let others = graph.op("Min", &[values, below]);
    graph.choose(on_top, most, &others)
}
