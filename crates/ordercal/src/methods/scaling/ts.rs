//! Temperature scaling: f(x) = βx with one positive inverse temperature β = 1/T (Guo et al., 2017).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::rows::{FitRows, Rows};
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::TsModel;
use crate::watch::Watch;

/// Temperature scaling: softmax(βx) with one inverse temperature β > 0 that minimises the mean NLL. Order-preserving.
///
/// The NLL is convex in β. Newton's method in ln β, safeguarded by a bracket, finds the minimum to 1e-7 in a few passes over
/// the data; on large data it starts at the minimum for a sample of the rows. If there is no minimum at a positive finite
/// β, the fit ends at a bound ([`SPREAD_BOUNDS`](crate::methods::SPREAD_BOUNDS)).
///
/// C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger: *On Calibration of Modern Neural Networks*, ICML 2017.
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Ts};
///
/// let logits = array![[9.0_f32, 0.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0]];
/// let scores = Scores::new(ScoreKind::Logits, logits.view())?;
/// let data = Dataset::new(scores.clone(), &[0, 0, 0, 1])?;
/// let fitted = Method::from(Ts::default()).fit(&data)?;
/// // The first class is the label of three rows in four.
/// let probs = fitted.model.apply::<f64>(&scores, ScoreKind::Probs)?;
/// assert!((probs[[0, 0]] - 0.75).abs() < 1e-6);
/// # Ok::<(), ordercal::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Ts {}

impl Describe for Ts {
    const BRIEF: &'static str = "one temperature";
    const PYTHON_CLASS: &'static str = "TemperatureScaling";
    const READS_LOGARITHMS: bool = true;

    fn by_sums(&self) -> Option<&dyn FitRows> {
        Some(self)
    }
}

impl Calibrator for Ts {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        self.fit_rows(data, watch)
    }
}

impl FitRows for Ts {
    fn fit_rows(&self, rows: &dyn Rows, watch: &dyn Watch) -> Result<Fitted> {
        let (beta, report) = fit_beta(rows, watch)?;
        let model = TsModel::new(rows.classes(), beta)?.into();
        Ok(Fitted { model, report })
    }
}
