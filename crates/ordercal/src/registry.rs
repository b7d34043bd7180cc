//! [`Method`]: one type for all methods of the table, with keys, JSON and projections.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::combine::{Auto, AutoFree, KeepOrder};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::methods::listed::*;
use crate::methods::table::for_each_method;
use crate::methods::zeros::Floor;
use crate::methods::{Calibrator, Describe, Estimate, Fitted};
use crate::watch::{Unwatched, Watch};

/// The suffix of a projected method's key.
const ORDER: &str = "+order";

macro_rules! promises_order {
    (kept) => {
        true
    };
    (free) => {
        false
    };
}

macro_rules! define_method {
    (
        $($family:ident { $($file:ident::$type:ident $key:literal $promise:ident;)* })*
        + combine { $($combined:ident $combined_key:literal $combined_promise:ident;)* }
    ) => {
        define_method!(
            @all $($($type $key $promise;)*)* $($combined $combined_key $combined_promise;)*
        );
    };
    (@all $($type:ident $key:literal $promise:ident;)*) => {
        /// A calibration method with its hyperparameters.
        ///
        /// In JSON or TOML it is a table with the entry `method` and the hyperparameters, each of which is optional:
        /// `{"method": "oi", "hidden": [100, 100]}`. A method that is not order-preserving can be projected onto the
        /// order of the scores: its key is then followed by `+order`, see [`Ordered`].
        ///
        /// ```
        /// use ndarray::array;
        /// use ordercal::{Dataset, Method, ScoreKind, Scores};
        ///
        /// let scores = Scores::new(ScoreKind::Logits, array![[9.0_f32, 0.0], [8.0, 0.0], [7.0, 0.0]])?;
        /// let data = Dataset::new(scores, &[0, 1, 0])?;
        /// let method: Method = serde_json::from_str(r#"{"method": "vs+order"}"#).unwrap();
        /// assert_eq!(method, Method::from_key("vs+order")?);
        /// assert_eq!(method, Method::from_key("vs")?.keep_order());
        /// assert!(method.promises_order() && method.key() == "vs+order");
        /// method.validate()?;
        /// let fitted = method.fit(&data)?;
        /// assert!(fitted.report.nll_after < fitted.report.nll_before);
        /// assert!(fitted.model.order_preserving());
        /// // Every method by its key, with what it learns.
        /// let ts = Method::all().into_iter().find(|method| method.key() == "ts").unwrap();
        /// assert_eq!((ts.brief(), ts.python_class()), ("one temperature", Some("TemperatureScaling")));
        /// # Ok::<(), ordercal::Error>(())
        /// ```
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Method {
            $(#[doc = concat!("`", $key, "`")] $type($type),)*
            /// `KEY+order`.
            Ordered(Ordered),
            /// A user's own method.
            Custom(CustomMethod),
        }

        $(impl From<$type> for Method {
            fn from(method: $type) -> Self {
                Self::$type(method)
            }
        })*

        impl Method {
            /// Every method with its default hyperparameters, in the order of the table, without the projections
            /// `KEY+order`.
            pub fn all() -> Vec<Self> {
                vec![$($type::default().into(),)*]
            }

            /// The method's key, as on the command line; the name of a custom method.
            pub fn key(&self) -> &str {
                match self {
                    $(Self::$type(_) => $key,)*
                    Self::Ordered(method) => &method.key,
                    Self::Custom(method) => &method.name,
                }
            }

            /// Whether every model of this method keeps the ranking of every row; `false` for custom methods.
            pub fn promises_order(&self) -> bool {
                match self {
                    $(Self::$type(_) => promises_order!($promise),)*
                    Self::Ordered(_) => true,
                    Self::Custom(_) => false,
                }
            }

            fn info(&self) -> Info {
                match self {
                    $(Self::$type(_) => Info {
                        brief: <$type as Describe>::BRIEF,
                        python_class: Some(<$type as Describe>::PYTHON_CLASS),
                        full_batch: <$type as Describe>::FULL_BATCH,
                        own_folds: <$type as Describe>::OWN_FOLDS,
                        reads_logarithms: <$type as Describe>::READS_LOGARITHMS,
                    },)*
                    Self::Ordered(method) => Info {
                        // The inner method sees to it.
                        reads_logarithms: false,
                        ..method.inner.info()
                    },
                    Self::Custom(_) => Info {
                        brief: "a custom method",
                        python_class: None,
                        full_batch: false,
                        own_folds: false,
                        reads_logarithms: false,
                    },
                }
            }

            /// The candidates of a hyperparameter search.
            pub(crate) fn space(&self, classes: usize) -> Vec<Self> {
                match self {
                    $(Self::$type(method) => {
                        Describe::space(method, classes).into_iter().map(Self::from).collect()
                    })*
                    Self::Ordered(method) => {
                        let inner = method.inner.space(classes);
                        inner.into_iter().map(Self::keep_order).collect()
                    }
                    Self::Custom(_) => vec![self.clone()],
                }
            }

            /// The same method with at most a tenth of the work.
            pub(crate) fn cheaper(&self) -> Self {
                match self {
                    $(Self::$type(method) => Describe::cheaper(method).into(),)*
                    Self::Ordered(method) => method.inner.cheaper().keep_order(),
                    Self::Custom(_) => self.clone(),
                }
            }

            fn calibrator(&self) -> &dyn Calibrator {
                match self {
                    $(Self::$type(method) => method,)*
                    Self::Ordered(method) => method,
                    Self::Custom(method) => &*method.calibrator,
                }
            }

            fn to_value(&self) -> serde_json::Result<Value> {
                match self {
                    $(Self::$type(method) => serde_json::to_value(method),)*
                    Self::Ordered(method) => method.inner.to_value(),
                    Self::Custom(_) => Err(serde::ser::Error::custom(
                        "a custom method cannot be serialised",
                    )),
                }
            }

            fn from_value(key: &str, settings: Value) -> Option<serde_json::Result<Self>> {
                match key {
                    $($key => Some(serde_json::from_value::<$type>(settings).map(Self::from)),)*
                    _ => None,
                }
            }
        }
    };
}

for_each_method!(define_method);

/// The constants of [`Describe`].
struct Info {
    brief: &'static str,
    python_class: Option<&'static str>,
    full_batch: bool,
    own_folds: bool,
    reads_logarithms: bool,
}

impl Method {
    /// What the method learns, in a few words.
    pub fn brief(&self) -> &'static str {
        self.info().brief
    }

    /// The name of the method's class in Python; `None` for a custom method.
    pub fn python_class(&self) -> Option<&'static str> {
        self.info().python_class
    }

    /// Whether every iteration of the fit uses all rows. Then the order of the rows does not matter, and a weight of 2 is
    /// equivalent to a repeated row.
    pub fn full_batch(&self) -> bool {
        self.info().full_batch
    }

    /// Whether the fit itself divides the rows into folds.
    pub fn has_own_folds(&self) -> bool {
        self.info().own_folds
    }

    /// A method of your own; `name` stands for it in tables and messages.
    pub fn custom(name: &str, calibrator: impl Calibrator + 'static) -> Self {
        Self::Custom(CustomMethod {
            name: name.to_owned(),
            calibrator: Arc::new(calibrator),
        })
    }

    /// The method with the given key (`KEY` or `KEY+order`) and default hyperparameters.
    ///
    /// # Errors
    /// [`Error::UnknownMethod`] lists the known keys; [`Error::AlreadyOrdered`] for `+order` after the key of an
    /// order-preserving method.
    pub fn from_key(key: &str) -> Result<Self> {
        if let Some(inner) = key.strip_suffix(ORDER) {
            return Ok(Ordered::new(Self::from_key(inner)?)?.into());
        }
        let all = Self::all();
        let known = all.iter().map(Self::key).collect::<Vec<_>>().join(" ");
        all.into_iter()
            .find(|method| method.key() == key)
            .ok_or_else(|| Error::UnknownMethod {
                key: key.to_owned(),
                known,
            })
    }

    /// The method itself if it is order-preserving, otherwise its projection onto the order of the scores.
    #[must_use]
    pub fn keep_order(self) -> Self {
        match Ordered::new(self.clone()) {
            Ok(ordered) => ordered.into(),
            Err(_) => self,
        }
    }

    /// Checks every hyperparameter.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first that is out of range.
    pub fn validate(&self) -> Result<()> {
        self.calibrator().validate()
    }

    /// What a fit to so many rows and classes is going to take; only `auto` and `auto-free` say.
    pub fn estimate(&self, rows: usize, classes: usize) -> Option<Estimate> {
        self.calibrator().estimate(rows, classes)
    }

    /// Fits a model to data.
    ///
    /// # Errors
    /// If a hyperparameter is out of range.
    pub fn fit(&self, data: &Dataset<'_>) -> Result<Fitted> {
        self.fit_watched(data, &Unwatched)
    }

    /// Fits a model to data, with progress reports to `watch`, which can cancel the fit.
    ///
    /// # Errors
    /// If a hyperparameter is out of range; [`Error::Cancelled`] if `watch` cancels the fit.
    pub fn fit_watched(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.validate()?;
        if self.info().reads_logarithms
            && let Some(floor) = Floor::learn(data)?
        {
            let then = self.calibrator().fit(&floor.read(data)?, watch)?;
            return floor.before(then, data);
        }
        self.calibrator().fit(data, watch)
    }
}

impl Calibrator for Method {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.fit_watched(data, watch)
    }

    fn validate(&self) -> Result<()> {
        Method::validate(self)
    }

    fn estimate(&self, rows: usize, classes: usize) -> Option<Estimate> {
        Method::estimate(self, rows, classes)
    }
}

impl Serialize for Method {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut table = self.to_value().map_err(serde::ser::Error::custom)?;
        table["method"] = self.key().into();
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Method {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Map::<String, Value>::deserialize(deserializer)?;
        let key = match table.remove("method") {
            Some(Value::String(key)) => key,
            Some(_) => {
                return Err(D::Error::custom(
                    "`method` must be a string: the key of a method",
                ));
            }
            None => return Err(D::Error::missing_field("method")),
        };
        let inner = key.strip_suffix(ORDER).unwrap_or(&key);
        let Some(method) = Self::from_value(inner, table.into()) else {
            return Err(D::Error::custom(
                Self::from_key(inner).expect_err("not in the table"),
            ));
        };
        let method = method.map_err(D::Error::custom)?;
        if inner == key {
            return Ok(method);
        }
        let ordered = Ordered::new(method).map_err(D::Error::custom)?;
        Ok(ordered.into())
    }
}

/// A method whose probabilities are projected onto the order of the scores ([`KeepOrder`]).
///
/// Its key is that of the inner method followed by `+order`; its JSON is that of the inner method with this key:
/// `{"method": "sms+order", "lambda": 2.0}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordered {
    key: String,
    inner: Box<Method>,
}

impl Ordered {
    /// The projection of a method.
    ///
    /// # Errors
    /// [`Error::AlreadyOrdered`] if the method is order-preserving.
    pub fn new(inner: impl Into<Method>) -> Result<Self> {
        let inner = inner.into();
        if inner.promises_order() {
            let key = inner.key().to_owned();
            return Err(Error::AlreadyOrdered { key });
        }
        Ok(Self {
            key: format!("{}{ORDER}", inner.key()),
            inner: Box::new(inner),
        })
    }

    /// The method that is projected.
    pub fn inner(&self) -> &Method {
        &self.inner
    }
}

impl From<Ordered> for Method {
    fn from(method: Ordered) -> Self {
        Self::Ordered(method)
    }
}

impl Calibrator for Ordered {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        KeepOrder(&*self.inner).fit(data, watch)
    }

    fn validate(&self) -> Result<()> {
        self.inner.validate()
    }

    fn estimate(&self, rows: usize, classes: usize) -> Option<Estimate> {
        self.inner.estimate(rows, classes)
    }
}

/// A user's own [`Calibrator`] with a name; see [`Method::custom`].
#[derive(Clone)]
pub struct CustomMethod {
    name: String,
    calibrator: Arc<dyn Calibrator>,
}

impl fmt::Debug for CustomMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomMethod {:?}", self.name)
    }
}

/// Two are equal if they are clones of each other.
impl PartialEq for CustomMethod {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.calibrator, &other.calibrator)
    }
}
