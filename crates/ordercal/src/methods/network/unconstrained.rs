//! `unconstrained`: a network without the order constraint, the paper's control experiment.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use crate::methods::networks::{Family, Network, adam};
use crate::models::Wiring;
use crate::nn::input::InputKind;

/// The [family](crate::methods::Family) of [`Unconstrained`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NoConstraint;

/// A multi-layer perceptron from K logits to K logits. Predictions may change.
///
/// It is the paper's control experiment, which shows the effect of the order constraint.
pub type Unconstrained = Network<NoConstraint>;

impl Family for NoConstraint {
    const WIRING: Wiring = Wiring::ClassesToLogits;
    const BRIEF: &'static str = "a plain network, to compare with";
    const PYTHON_CLASS: &'static str = "Unconstrained";

    fn defaults() -> Unconstrained {
        Network {
            hidden: vec![100],
            lambda: 5e-3,
            input: InputKind::Centred,
            top: None,
            optimizer: adam().into(),
            early_stopping: None,
            seed: 1357,
            family: PhantomData,
        }
    }
}
