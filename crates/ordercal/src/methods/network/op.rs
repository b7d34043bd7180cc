//! `op`: order-preserving (Theorem 1 of the paper).

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use crate::methods::networks::{Family, Network, adam};
use crate::models::Wiring;
use crate::nn::input::InputKind;

/// The [family](crate::methods::Family) of [`Op`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OrderPreserving;

/// The general order-preserving family: f(x) = S(x)⁻¹ U w(x), where the network reads the row in class order.
///
/// As [`Oi`](crate::Oi), but the multipliers m_i(x) depend on which class has which score, so the map can differ between
/// classes as far as the ranking is kept. From 66 classes on, the default reads the 64 largest scores and the mass of the
/// rest (`top`), which is better on networks with 100 classes (docs/auto.md).
///
/// A. Rahimi, A. Shaban, C.-A. Cheng, R. Hartley, B. Boots: *Intra Order-preserving Functions for Calibration of
/// Multi-Class Neural Networks*, NeurIPS 2020 (Theorem 1).
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
            top: Some(64),
            optimizer: adam().into(),
            early_stopping: None,
            seed: 1357,
            family: PhantomData,
        }
    }
}
