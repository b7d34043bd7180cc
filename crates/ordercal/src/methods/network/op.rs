//! `op`: order-preserving (Theorem 1 of the paper).

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use crate::methods::networks::{Family, Network};
use crate::models::Wiring;
use crate::nn::input::InputKind;
use crate::optim::Adam;

/// Marks [`Op`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OrderPreserving;

/// The general order-preserving family: f(x) = S(x)⁻¹ U w(x), the network reads the row in class order.
///
/// As [`Oi`](crate::Oi), but the multipliers m_i(x) may depend on *which* class stands where, so it can
/// correct what is special to a class, as far as that does not change the ranking.
pub type Op = Network<OrderPreserving>;

impl Family for OrderPreserving {
    const WIRING: Wiring = Wiring::ClassesToGaps;
    const BRIEF: &'static str =
        "multipliers of the gaps that may depend on which class stands where";
    const PYTHON_CLASS: &'static str = "OrderPreserving";

    fn defaults() -> Op {
        Network {
            hidden: vec![100],
            lambda: 1e-3,
            input: InputKind::LogSoftmax,
            optimizer: Adam::default().with_learning_rate(5e-3).into(),
            early_stopping: None,
            seed: 1357,
            family: PhantomData,
        }
    }
}
