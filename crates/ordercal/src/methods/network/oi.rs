//! `oi`: order-preserving and order-invariant (Theorem 2 of the paper).

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use crate::methods::networks::{Family, Network};
use crate::models::Wiring;
use crate::nn::input::InputKind;
use crate::optim::Adam;

/// Marks [`Oi`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OrderInvariant;

/// The order-invariant, order-preserving family: f(x) = S(x)⁻¹ U w(y), the network reads the *sorted* row.
///
/// w_i = (y_i − y_{i+1})·m_i(y) with m = β·s⁺(network + c) > 0 (β from `ts`, s⁺(c) = 1), so every strict step stays strict and every tie a
/// tie. Because the network never learns which class stands where, what it learns for one class serves
/// all: f(Px) = P f(x).
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
            optimizer: Adam::default().with_learning_rate(5e-3).into(),
            early_stopping: None,
            seed: 1357,
            family: PhantomData,
        }
    }
}
