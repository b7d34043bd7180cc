//! `oi`: order-preserving and order-invariant (Theorem 2 of the paper).

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use crate::methods::networks::{Family, Network, adam};
use crate::models::Wiring;
use crate::nn::input::InputKind;

/// The [family](crate::methods::Family) of [`Oi`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OrderInvariant;

/// The order-invariant, order-preserving family: f(x) = S(x)⁻¹ U w(y), where y = S(x)x is the row sorted in descending order
/// and U the upper-triangular matrix of ones.
///
/// w_i = (y_i − y_{i+1})·m_i(y) with m = β·softplus(network(y) + c) > 0, where β is that of temperature scaling and
/// softplus(c) = 1. All m_i are positive, so the ranking is kept, ties included. The network reads the sorted row and does
/// not know the classes, so f is equivariant: f(Px) = P f(x) for every permutation P.
///
/// From 18 classes on, the default reads the 16 largest scores and the mass of the rest (`top`): on networks with 100
/// classes that is better on two of three (docs/auto.md), and at 1000 classes it takes far less time.
///
/// A. Rahimi, A. Shaban, C.-A. Cheng, R. Hartley, B. Boots: *Intra Order-preserving Functions for Calibration of
/// Multi-Class Neural Networks*, NeurIPS 2020 (Theorem 2).
pub type Oi = Network<OrderInvariant>;

impl Family for OrderInvariant {
    const WIRING: Wiring = Wiring::SortedToGaps;
    const BRIEF: &'static str =
        "multipliers of the gaps between sorted scores, the same for all classes";
    const PYTHON_CLASS: &'static str = "OrderInvariant";

    fn defaults() -> Oi {
        Network {
            hidden: vec![100],
            lambda: 1e-3,
            input: InputKind::Centred,
            top: Some(16),
            optimizer: adam().into(),
            early_stopping: None,
            seed: 1357,
            family: PhantomData,
        }
    }
}
