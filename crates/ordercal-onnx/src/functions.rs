//! Functions of several nodes each. All of them work on 64-bit floats, row by row.

use crate::graph::{Graph, Value};

impl Graph {
    /// ln softmax(logits).
    pub fn log_softmax(&mut self, logits: &Value) -> Value {
        self.op_with("LogSoftmax", &[logits], &[("axis", -1)])
    }

    /// softmax(logits).
    pub fn softmax(&mut self, logits: &Value) -> Value {
        self.op_with("Softmax", &[logits], &[("axis", -1)])
    }

    /// ln Σ eᵗ over the terms, which broadcast to N×K. A cell in which every term is `-inf` becomes NaN.
    pub fn log_sum_exp(&mut self, terms: &[Value]) -> Value {
        let [first, rest @ ..] = terms else {
            unreachable!("a sum has at least one term");
        };
        if rest.is_empty() {
            return first.clone();
        }
        let max = self.op("Max", &terms.iter().collect::<Vec<_>>());
        let mut exps = terms.iter().map(|term| {
            let below = self.sub(term, &max);
            self.op("Exp", &[&below])
        });
        let first = exps.next().expect("there are two terms or more");
        let rest: Vec<Value> = exps.collect();
        let sum = rest.iter().fold(first, |sum, term| self.add(&sum, term));
        let log = self.op("Log", &[&sum]);
        self.add(&max, &log)
    }

    /// ln(1 + eᶻ), as max(z, 0) + ln(1 + e^−|z|) so that nothing overflows.
    pub fn softplus(&mut self, z: &Value) -> Value {
        let zero = self.double(0.0);
        let positive = self.op("Max", &[z, &zero]);
        let e = self.exp_minus_abs(z);
        // ONNX has no log1p. The usual substitute: with w the rounded 1 + e, ln(1 + e) = ln w · e/(w − 1), and
        // e itself where w rounds to 1.
        let w = self.offset(&e, 1.0);
        let kept = self.offset(&w, -1.0);
        let lost = self.op("Equal", &[&kept, &zero]);
        let log = self.op("Log", &[&w]);
        let ratio = self.op("Div", &[&e, &kept]);
        let log = self.mul(&log, &ratio);
        let log = self.select(&lost, &e, &log);
        self.add(&positive, &log)
    }

    /// The logistic function 1/(1 + e^−z), exact to the last digits at both ends.
    pub fn logistic(&mut self, z: &Value) -> Value {
        let e = self.exp_minus_abs(z);
        let (one, zero) = (self.double(1.0), self.double(0.0));
        let denominator = self.add(&one, &e);
        let positive_side = self.op("Div", &[&one, &denominator]);
        let negative_side = self.mul(&e, &positive_side);
        let negative = self.op("Greater", &[&zero, z]);
        self.select(&negative, &negative_side, &positive_side)
    }

    fn exp_minus_abs(&mut self, z: &Value) -> Value {
        let size = self.op("Abs", &[z]);
        let minus = self.op("Neg", &[&size]);
        self.op("Exp", &[&minus])
    }

    /// The rows sorted, and the column that each element came from. The sort is stable.
    pub fn sort(&mut self, values: &Value, width: usize, descending: bool) -> (Value, Value) {
        let count = self.integers(&[width as i64]);
        let [sorted, places] = self.ops(
            "TopK",
            &[values, &count],
            &[("axis", -1), ("largest", descending.into()), ("sorted", 1)],
        );
        (sorted, places)
    }

    /// The elements of each row at the given columns of it.
    pub fn gather_columns(&mut self, values: &Value, columns: &Value) -> Value {
        self.op_with("GatherElements", &[values, columns], &[("axis", 1)])
    }

    /// The inverse of [`gather_columns`](Self::gather_columns) for a permutation of the columns; the values of
    /// `like` do not matter, only its shape.
    pub fn scatter_columns(&mut self, like: &Value, columns: &Value, values: &Value) -> Value {
        self.op_with("ScatterElements", &[like, columns, values], &[("axis", 1)])
    }

    /// The elements of a list at the given places.
    pub fn look_up(&mut self, list: &Value, places: &Value) -> Value {
        self.op_with("Gather", &[list, places], &[("axis", 0)])
    }
}
