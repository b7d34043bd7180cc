//! Models taken apart: small settings that fit in a header, and arrays of numbers with names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    ChainModel, CurvesModel, CurvesParts, DiagModel, EtsModel, EtsParts, LinearModel, LinearParts,
    LogisticModel, LogisticParts, MixtureModel, Model, NetworkModel, NetworkParts, OrderedModel,
    TsModel, UncalibratedModel,
};
use crate::error::{Error, Result};
use crate::nn::input::InputKind;

/// The numbers of an array.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum TensorValues {
    /// 32-bit floats.
    F32(Vec<f32>),
    /// 64-bit floats.
    F64(Vec<f64>),
    /// Counts.
    U32(Vec<u32>),
}

/// Everything a [`Model`] is made of. As JSON it holds the settings; [`tensors`](ModelParts::tensors) are
/// the rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ModelParts {
    /// The identity.
    Uncalibrated {
        /// K.
        classes: usize,
    },
    /// A temperature.
    Ts {
        /// K.
        classes: usize,
        /// What logits are multiplied by.
        beta: f64,
    },
    /// A mixture of the tempered, the original and the uniform distribution.
    Ets(EtsParts),
    /// One increasing function for all classes.
    Diag {
        /// K.
        classes: usize,
        /// The shift of a row before the function.
        input: InputKind,
        /// The range of the grid.
        range: (f64, f64),
        /// The function's slopes at the nodes.
        #[serde(skip)]
        slopes: Vec<f64>,
    },
    /// One of the network families.
    Network(NetworkParts),
    /// A linear map.
    Linear(LinearParts),
    /// A logistic function per class.
    Logistic(LogisticParts),
    /// A curve per class.
    Curves(CurvesParts),
    /// A free model projected onto the input's order.
    Ordered {
        /// The inverse temperature of the sliver that keeps strict steps strict.
        beta: f64,
        /// The free model.
        inner: Box<ModelParts>,
    },
    /// An average of models.
    Mixture {
        /// The weight of each model.
        weights: Vec<f64>,
        /// The models.
        members: Vec<ModelParts>,
    },
    /// A model behind another.
    Chain {
        /// The model that reads the scores.
        first: Box<ModelParts>,
        /// The model that reads what the first gives.
        then: Box<ModelParts>,
    },
}

impl Model {
    /// Takes the model apart.
    pub fn to_parts(&self) -> ModelParts {
        match self {
            Self::Uncalibrated(_) => ModelParts::Uncalibrated {
                classes: self.classes(),
            },
            Self::Ts(ts) => ModelParts::Ts {
                classes: self.classes(),
                beta: ts.inverse_temperature(),
            },
            Self::Ets(ets) => ModelParts::Ets(ets.to_parts()),
            Self::Diag(diag) => ModelParts::Diag {
                classes: self.classes(),
                input: diag.input(),
                range: diag.range(),
                slopes: diag.slopes().to_vec(),
            },
            Self::Network(network) => ModelParts::Network(network.to_parts()),
            Self::Linear(linear) => ModelParts::Linear(linear.to_parts()),
            Self::Logistic(logistic) => ModelParts::Logistic(logistic.to_parts()),
            Self::Curves(curves) => ModelParts::Curves(curves.to_parts()),
            Self::Ordered(ordered) => ModelParts::Ordered {
                beta: ordered.inverse_temperature(),
                inner: Box::new(ordered.inner().to_parts()),
            },
            Self::Mixture(mixture) => {
                let members = mixture.members().iter();
                let (weights, members) = members.map(|(w, m)| (*w, m.to_parts())).unzip();
                ModelParts::Mixture { weights, members }
            }
            Self::Chain(chain) => ModelParts::Chain {
                first: Box::new(chain.first().to_parts()),
                then: Box::new(chain.then().to_parts()),
            },
        }
    }

    /// Builds a model.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first part that is out of range or does not fit the others.
    pub fn from_parts(parts: ModelParts) -> Result<Self> {
        Ok(match parts {
            ModelParts::Uncalibrated { classes } => UncalibratedModel::new(check(classes)?).into(),
            ModelParts::Ts { classes, beta } => {
                if !(beta > 0.0 && beta.is_finite()) {
                    return Err(Error::InvalidParameter {
                        name: "beta",
                        value: beta.to_string(),
                        expected: "a positive number",
                    });
                }
                TsModel::new(check(classes)?, beta).into()
            }
            ModelParts::Ets(parts) => EtsModel::from_parts(parts)?.into(),
            ModelParts::Diag {
                classes,
                input,
                range,
                slopes,
            } => DiagModel::from_slopes(classes, input, range, slopes)?.into(),
            ModelParts::Network(parts) => NetworkModel::from_parts(parts)?.into(),
            ModelParts::Linear(parts) => LinearModel::from_parts(parts)?.into(),
            ModelParts::Logistic(parts) => LogisticModel::from_parts(parts)?.into(),
            ModelParts::Curves(parts) => CurvesModel::from_parts(parts)?.into(),
            ModelParts::Ordered { beta, inner } => {
                OrderedModel::new(Self::from_parts(*inner)?, beta)?.into()
            }
            ModelParts::Mixture { weights, members } => {
                if weights.len() != members.len() {
                    return Err(Error::InvalidParameter {
                        name: "weights",
                        value: format!("{} for {} models", weights.len(), members.len()),
                        expected: "one weight per model",
                    });
                }
                let members = members.into_iter().map(Self::from_parts);
                let members = weights.into_iter().zip(members);
                let members = members.map(|(weight, model)| Ok((weight, model?)));
                MixtureModel::new(members.collect::<Result<_>>()?)?.into()
            }
            ModelParts::Chain { first, then } => {
                ChainModel::new(Self::from_parts(*first)?, Self::from_parts(*then)?)?.into()
            }
        })
    }
}

fn check(classes: usize) -> Result<usize> {
    if classes >= 2 {
        return Ok(classes);
    }
    Err(Error::InvalidParameter {
        name: "classes",
        value: classes.to_string(),
        expected: "at least 2",
    })
}

impl ModelParts {
    /// The arrays, each with its name. Those of models inside a mixture or a chain have names that begin
    /// with where they are: `0.params`, `then.slopes`.
    pub fn tensors(&self) -> Vec<(String, TensorValues)> {
        let mut tensors = Vec::new();
        self.list(String::new(), &mut tensors);
        tensors
    }

    fn list(&self, at: String, tensors: &mut Vec<(String, TensorValues)>) {
        let mut add = |name: &str, values| tensors.push((format!("{at}{name}"), values));
        match self {
            Self::Uncalibrated { .. } | Self::Ts { .. } | Self::Ets(_) => {}
            Self::Diag { slopes, .. } => add("slopes", TensorValues::F64(slopes.clone())),
            Self::Network(parts) => add("params", TensorValues::F32(parts.params.clone())),
            Self::Linear(parts) => {
                add("bias", TensorValues::F32(parts.bias.clone()));
                add("deviation", TensorValues::F32(parts.deviation.clone()));
            }
            Self::Logistic(parts) => {
                add(
                    "coefficients",
                    TensorValues::F64(parts.coefficients.clone()),
                );
            }
            Self::Curves(parts) => {
                add("knots", TensorValues::U32(parts.knots.clone()));
                add("x", TensorValues::F64(parts.x.clone()));
                add("y", TensorValues::F64(parts.y.clone()));
            }
            Self::Ordered { inner, .. } => inner.list(at, tensors),
            Self::Mixture { members, .. } => {
                for (place, member) in members.iter().enumerate() {
                    member.list(format!("{at}{place}."), tensors);
                }
            }
            Self::Chain { first, then } => {
                first.list(format!("{at}first."), tensors);
                then.list(format!("{at}then."), tensors);
            }
        }
    }

    /// Puts arrays, as [`tensors`](Self::tensors) gave them, back into parts that were read from JSON.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names an array that is missing, of another type, or not known.
    pub fn fill(&mut self, mut tensors: BTreeMap<String, TensorValues>) -> Result<()> {
        self.take_from(&mut tensors, "")?;
        match tensors.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Error::InvalidParameter {
                name: "tensors",
                value: name,
                expected: "only arrays that this form of model has",
            }),
        }
    }

    fn take_from(&mut self, tensors: &mut Tensors, at: &str) -> Result<()> {
        match self {
            Self::Uncalibrated { .. } | Self::Ts { .. } | Self::Ets(_) => {}
            Self::Diag { slopes, .. } => *slopes = take_f64(tensors, at, "slopes")?,
            Self::Network(parts) => parts.params = take_f32(tensors, at, "params")?,
            Self::Linear(parts) => {
                parts.bias = take_f32(tensors, at, "bias")?;
                parts.deviation = take_f32(tensors, at, "deviation")?;
            }
            Self::Logistic(parts) => parts.coefficients = take_f64(tensors, at, "coefficients")?,
            Self::Curves(parts) => {
                parts.knots = match tensors.remove(&format!("{at}knots")) {
                    Some(TensorValues::U32(values)) => values,
                    other => return Err(unusable("knots", other, "an array of 32-bit counts")),
                };
                parts.x = take_f64(tensors, at, "x")?;
                parts.y = take_f64(tensors, at, "y")?;
            }
            Self::Ordered { inner, .. } => inner.take_from(tensors, at)?,
            Self::Mixture { members, .. } => {
                for (place, member) in members.iter_mut().enumerate() {
                    member.take_from(tensors, &format!("{at}{place}."))?;
                }
            }
            Self::Chain { first, then } => {
                first.take_from(tensors, &format!("{at}first."))?;
                then.take_from(tensors, &format!("{at}then."))?;
            }
        }
        Ok(())
    }
}

type Tensors = BTreeMap<String, TensorValues>;

fn take_f32(tensors: &mut Tensors, at: &str, name: &'static str) -> Result<Vec<f32>> {
    match tensors.remove(&format!("{at}{name}")) {
        Some(TensorValues::F32(values)) => Ok(values),
        other => Err(unusable(name, other, "an array of 32-bit floats")),
    }
}

fn take_f64(tensors: &mut Tensors, at: &str, name: &'static str) -> Result<Vec<f64>> {
    match tensors.remove(&format!("{at}{name}")) {
        Some(TensorValues::F64(values)) => Ok(values),
        other => Err(unusable(name, other, "an array of 64-bit floats")),
    }
}

fn unusable(name: &'static str, found: Option<TensorValues>, expected: &'static str) -> Error {
    let value = match found {
        None => "nothing",
        Some(_) => "another type",
    };
    Error::InvalidParameter {
        name,
        value: value.to_owned(),
        expected,
    }
}
