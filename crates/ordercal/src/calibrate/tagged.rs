//! How a method is written down: a table with its key under `method`, projections under `KEY+order`.

use serde::{Deserialize, Serialize};

use super::{
    Auto, AutoFree, Bbq, Beta, Diag, DirOdir, Ets, Histogram, Isotonic, Method, MsOdir, Oi, Op,
    Ordered, Platt, Sms, Svs, Ts, Uncalibrated, Unconstrained, Vs,
};

/// Defines [`Tagged`] and its conversions from two lists: methods that keep the order, and free ones with
/// the name of their projection.
macro_rules! tagged {
    (
        ordered { $($ordered:ident),* $(,)? }
        free { $($free:ident as $projected:ident = $key:literal),* $(,)? }
    ) => {
        /// A method as it is written down. A variant of its own for each projection keeps the inner
        /// method's parameters at the same level, and the unknown ones among them refused.
        #[derive(Serialize, Deserialize)]
        #[serde(tag = "method", rename_all = "kebab-case")]
        pub(super) enum Tagged {
            $($ordered($ordered),)*
            $($free($free),)*
            $(#[serde(rename = $key)] $projected($free),)*
        }

        impl From<Tagged> for Method {
            fn from(tagged: Tagged) -> Self {
                match tagged {
                    $(Tagged::$ordered(method) => method.into(),)*
                    $(Tagged::$free(method) => method.into(),)*
                    $(Tagged::$projected(method) => Method::from(method).keep_order(),)*
                }
            }
        }

        impl From<Method> for Tagged {
            fn from(method: Method) -> Self {
                match method {
                    $(Method::$ordered(method) => Self::$ordered(method),)*
                    $(Method::$free(method) => Self::$free(method),)*
                    Method::Ordered(ordered) => projected(&ordered),
                }
            }
        }

        fn projected(ordered: &Ordered) -> Tagged {
            match ordered.inner() {
                $(Method::$free(method) => Tagged::$projected(method.clone()),)*
                _ => unreachable!("only free methods are projected"),
            }
        }
    };
}

tagged! {
    ordered { Uncalibrated, Ts, Ets, Diag, Oi, Op, Auto }
    free {
        Vs as VsOrder = "vs+order",
        MsOdir as MsOdirOrder = "ms-odir+order",
        DirOdir as DirOdirOrder = "dir-odir+order",
        Svs as SvsOrder = "svs+order",
        Sms as SmsOrder = "sms+order",
        Platt as PlattOrder = "platt+order",
        Beta as BetaOrder = "beta+order",
        Isotonic as IsotonicOrder = "isotonic+order",
        Histogram as HistogramOrder = "histogram+order",
        Bbq as BbqOrder = "bbq+order",
        Unconstrained as UnconstrainedOrder = "unconstrained+order",
        AutoFree as AutoFreeOrder = "auto-free+order",
    }
}
