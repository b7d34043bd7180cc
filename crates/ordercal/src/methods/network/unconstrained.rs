//! `unconstrained`: a network without the order constraint, the paper's control experiment.

use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

use crate::methods::networks::{Family, Network, adam};
use crate::models::Wiring;
use crate::nn::input::InputKind;

/// The [family](crate::methods::Family) of [`Unconstrained`].
///
/// ```
/// use ordercal::Unconstrained;
/// use ordercal::methods::{Network, NoConstraint};
///
/// assert_eq!(Network::<NoConstraint>::default(), Unconstrained::default());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NoConstraint;

/// A multi-layer perceptron from K logits to K logits. Predictions may change.
///
/// It is the paper's control experiment, which shows the effect of the order constraint.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Unconstrained};
///
/// let logits = array![[9.0_f32, 0.0], [8.0, 0.0], [9.0, 0.0], [7.0, 0.0]];
/// let data = Dataset::new(Scores::new(ScoreKind::Logits, logits.view())?, &[0, 0, 1, 0])?;
/// let fitted = Method::from(Unconstrained::default().with_hidden(&[5])).fit(&data)?;
/// assert!(!fitted.model.order_preserving());
/// # Ok::<(), ordercal::Error>(())
/// ```
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
