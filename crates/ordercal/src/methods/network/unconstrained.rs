//! `unconstrained`: a plain network on the logits, the paper's control.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use crate::methods::networks::{Family, Network};
use crate::models::Wiring;
use crate::nn::input::InputKind;
use crate::optim::Adam;

/// Marks [`Unconstrained`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NoConstraint;

/// A multi-layer perceptron from logits to logits. It **may change predictions**: the paper's experiment
/// that shows what the order constraint is worth.
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
            optimizer: Adam::default().with_learning_rate(5e-3).into(),
            early_stopping: None,
            seed: 1357,
            family: PhantomData,
        }
    }
}
