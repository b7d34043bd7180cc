//! Compares every metric with the figures that public packages gave on the same logits.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use ordercal::Dataset;
use ordercal::metrics::{self, Metric, MetricOptions, Predictions};
use ordercal_io::{DataRef, load};
use serde_json::Value;

/// How far a figure may be from one computed in 64 bits, and from one computed in 32.
const TOLERANCE: f64 = 1e-9;
const TOLERANCE_FLOAT32: f64 = 1e-5;

/// Prints the difference to every figure of `metrics_json`, whose sets are the test splits of the bundles
/// of the same names in `logits_dir`; says whether all are within tolerance.
pub fn check(logits_dir: &Path, metrics_json: &Path) -> Result<bool> {
    let text = std::fs::read_to_string(metrics_json)
        .with_context(|| format!("reading {}", metrics_json.display()))?;
    let sets: BTreeMap<String, BTreeMap<String, Value>> = serde_json::from_str(&text)
        .with_context(|| format!("parsing {}", metrics_json.display()))?;
    let mut all_within = true;
    let mut worst = 0.0_f64;
    for (name, figures) in &sets {
        let path = logits_dir.join(name).with_extension("npz");
        let test = load(&DataRef::new(path).with_split("test"), None)?;
        let data = test.dataset()?;
        let predictions = Predictions::from(&data);
        let values = metrics::evaluate(
            &predictions,
            &Metric::for_classes(data.classes()),
            &MetricOptions::default(),
        )?;
        println!("{name}: {} rows, {} classes", data.rows(), data.classes());
        for (figure, reference) in figures {
            let reference = reference
                .as_f64()
                .with_context(|| format!("{name}.{figure} is no number"))?;
            let ours = ours(figure, &values, &data)?;
            let float32 = figure.ends_with("_float32");
            let tolerance = if float32 {
                TOLERANCE_FLOAT32
            } else {
                TOLERANCE
            };
            let difference = (ours - reference).abs();
            let within = difference <= tolerance;
            all_within &= within;
            if !float32 {
                worst = worst.max(difference);
            }
            let verdict = if within { "ok" } else { "OFF" };
            println!("  {figure:<40} {reference:<22} {ours:<22} {difference:>9.1e} {verdict}");
        }
    }
    println!("largest difference to a figure in 64 bits: {worst:.1e}");
    Ok(all_within)
}

/// Our value of a figure of the file.
fn ours(figure: &str, values: &BTreeMap<Metric, f64>, data: &Dataset<'_>) -> Result<f64> {
    let metric = match figure {
        "n" => return Ok(data.rows() as f64),
        "classes" => return Ok(data.classes() as f64),
        "brier_sum_over_classes" => return Ok(values[&Metric::BrierSum]),
        "accuracy" => Metric::Accuracy,
        "top5" => Metric::Top5,
        "nll" => Metric::Nll,
        "brier_mean_over_cells" => Metric::Brier,
        "ece_15" | "ece_15_torchmetrics_float32" | "ece_15_netcal" => Metric::Ece,
        "mce_15" | "mce_15_netcal" => Metric::Mce,
        "classwise_ece_mean_15" => Metric::ClasswiseEce,
        "classwise_ece_sum_14bins_kull" => Metric::ClasswiseEceSum,
        "debiased_ece_uncertainty_calibration" => Metric::DebiasedEce,
        "marginal_ce_uncertainty_calibration" => Metric::MarginalCe,
        "sm_ece_relplot" => Metric::SmEce,
        "ks" => Metric::Ks,
        _ => bail!("the figure `{figure}` is not known: add it to reference_metrics.rs"),
    };
    Ok(values[&metric])
}
