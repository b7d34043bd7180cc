//! Models taken apart: small settings that fit in a header, and arrays of numbers with names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    CurvesModel, CurvesParts, DiagModel, EtsModel, EtsParts, LinearModel, LinearParts,
    LogisticModel, LogisticParts, Model, NetworkModel, NetworkParts, OrderedModel, TsModel,
    UncalibratedModel,
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
    /// The arrays, each with its name.
    pub fn tensors(&self) -> Vec<(&'static str, TensorValues)> {
        match self {
            Self::Uncalibrated { .. } | Self::Ts { .. } | Self::Ets(_) => Vec::new(),
            Self::Diag { slopes, .. } => vec![("slopes", TensorValues::F64(slopes.clone()))],
            Self::Network(parts) => vec![("params", TensorValues::F32(parts.params.clone()))],
            Self::Linear(parts) => vec![
                ("bias", TensorValues::F32(parts.bias.clone())),
                ("deviation", TensorValues::F32(parts.deviation.clone())),
            ],
            Self::Logistic(parts) => {
                vec![(
                    "coefficients",
                    TensorValues::F64(parts.coefficients.clone()),
                )]
            }
            Self::Curves(parts) => vec![
                ("knots", TensorValues::U32(parts.knots.clone())),
                ("x", TensorValues::F64(parts.x.clone())),
                ("y", TensorValues::F64(parts.y.clone())),
            ],
            Self::Ordered { inner, .. } => inner.tensors(),
        }
    }

    /// Puts arrays, as [`tensors`](Self::tensors) gave them, back into parts that were read from JSON.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names an array that is missing, of another type, or not known.
    pub fn fill(&mut self, mut tensors: BTreeMap<String, TensorValues>) -> Result<()> {
        self.take_from(&mut tensors)?;
        match tensors.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Error::InvalidParameter {
                name: "tensors",
                value: name,
                expected: "only arrays that this form of model has",
            }),
        }
    }

    fn take_from(&mut self, tensors: &mut BTreeMap<String, TensorValues>) -> Result<()> {
        match self {
            Self::Uncalibrated { .. } | Self::Ts { .. } | Self::Ets(_) => {}
            Self::Diag { slopes, .. } => *slopes = take_f64(tensors, "slopes")?,
            Self::Network(parts) => parts.params = take_f32(tensors, "params")?,
            Self::Linear(parts) => {
                parts.bias = take_f32(tensors, "bias")?;
                parts.deviation = take_f32(tensors, "deviation")?;
            }
            Self::Logistic(parts) => parts.coefficients = take_f64(tensors, "coefficients")?,
            Self::Curves(parts) => {
                parts.knots = match tensors.remove("knots") {
                    Some(TensorValues::U32(values)) => values,
                    other => return Err(unusable("knots", other, "an array of 32-bit counts")),
                };
                parts.x = take_f64(tensors, "x")?;
                parts.y = take_f64(tensors, "y")?;
            }
            Self::Ordered { inner, .. } => inner.take_from(tensors)?,
        }
        Ok(())
    }
}

type Tensors = BTreeMap<String, TensorValues>;

fn take_f32(tensors: &mut Tensors, name: &'static str) -> Result<Vec<f32>> {
    match tensors.remove(name) {
        Some(TensorValues::F32(values)) => Ok(values),
        other => Err(unusable(name, other, "an array of 32-bit floats")),
    }
}

fn take_f64(tensors: &mut Tensors, name: &'static str) -> Result<Vec<f64>> {
    match tensors.remove(name) {
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
