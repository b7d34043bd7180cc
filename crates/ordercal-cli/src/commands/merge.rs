//! `ordercal merge`: the metrics of several shards together.

use std::path::Path;

use anyhow::Result;
use ordercal::metrics::MetricState;
use ordercal_io::write_atomically;
use serde_json::{Map, Value, json};

use crate::args::MergeArgs;
use crate::exit::Exit;
use crate::input::at;
use crate::printer::{self, Printer};

/// Runs the command.
pub fn run(args: &MergeArgs, printer: Printer) -> Result<Exit> {
    let mut states = args.states.iter();
    let mut merged = match states.next() {
        Some(path) => read(path)?,
        None => anyhow::bail!("no states were given"),
    };
    for path in states {
        merged.merge(&read(path)?).map_err(|e| at(path, e))?;
    }
    let found = merged.finalize().map_err(|e| at(&args.states[0], e))?;
    if let Some(path) = &args.state_out {
        write_atomically(path, &merged.to_bytes())?;
    }
    let collect = |value: &dyn Fn(f64, f64) -> f64| -> Map<String, Value> {
        let entries = found.iter();
        entries
            .map(|(m, e)| (m.to_string(), json!(value(e.value, e.error_bound))))
            .collect()
    };
    printer.json(&json!({
        "n": merged.rows(),
        "classes": merged.classes(),
        "rows": [{
            "name": "merged",
            "metrics": collect(&|value, _| value),
            "error_bound": collect(&|_, bound| bound),
        }],
    }));
    printer.remark(format_args!(
        "{} rows of {} classes from {} files",
        merged.rows(),
        merged.classes(),
        args.states.len()
    ));
    let lines = found.iter().map(|(metric, estimate)| {
        let bound = if estimate.error_bound > 0.0 {
            format!("± {:.4}", estimate.error_bound)
        } else {
            "exact".to_owned()
        };
        vec![metric.to_string(), format!("{:.4}", estimate.value), bound]
    });
    let header = ["", "merged", "within"].map(str::to_owned).to_vec();
    printer.result(printer::table(header, lines.collect()));
    Ok(Exit::Done)
}

fn read(path: &Path) -> Result<MetricState> {
    let bytes = std::fs::read(path).map_err(|e| at(path, e))?;
    MetricState::from_bytes(&bytes).map_err(|e| at(path, e))
}
