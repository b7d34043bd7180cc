//! Temperature scaling: f(x) = βx with one positive inverse temperature β = 1/T (Guo et al., 2017).

use serde::{Deserialize, Serialize};

use crate::data::Dataset;
use crate::error::Result;
use crate::methods::temperature::fit_beta;
use crate::methods::{Calibrator, Describe, Fitted};
use crate::models::TsModel;
use crate::watch::Watch;

/// Temperature scaling: minimises the NLL of softmax(βx) over β > 0.
///
/// The NLL has a single valley in β. Newton's method in ln β, kept in a bracket, finds it to 1e-7 in a
/// handful of passes, of which large data see only the last: the first are made on a sample of the rows.
/// β can never be negative. On data where the minimum lies at infinity or zero, see
/// [`SPREAD_BOUNDS`].
///
/// ```
/// use ndarray::array;
/// use ordercal::{Dataset, Method, ScoreKind, Scores, Ts};
///
/// let logits = array![[9.0_f32, 0.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0]];
/// let scores = Scores::new(ScoreKind::Logits, logits.view())?;
/// let data = Dataset::new(scores.clone(), &[0, 0, 0, 1])?;
/// let fitted = Method::from(Ts::default()).fit(&data)?;
/// // The first class is right three times in four, and that is what it now says.
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
}

impl Calibrator for Ts {
    fn fit(&self, data: &Dataset<'_>, watch: &dyn Watch) -> Result<Fitted> {
        let (beta, report) = fit_beta(data, watch)?;
        let model = TsModel::new(data.classes(), beta)?.into();
        Ok(Fitted { model, report })
    }
}
