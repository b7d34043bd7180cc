//! `ordercal merge`: the metrics of several shards together.

use std::path::Path;

use anyhow::{Result, bail};
use ordercal::metrics::{Metric, MetricState};
use ordercal::words::count;
use ordercal_io::write_atomically;
use serde_json::{Map, Value, json};

use crate::args::MergeArgs;
use crate::exit::Exit;
use crate::input::at;
use crate::printer::{self, Printer};

/// Runs the command.
pub fn run(args: &MergeArgs, printer: Printer) -> Result<Exit> {
    let states = args.states.iter();
    let states = states.map(|path| Ok((path.as_path(), read(path)?)));
    let states: Vec<(&Path, MetricState)> = states.collect::<Result<_>>()?;
    let Some(((first, state), others)) = states.split_first() else {
        bail!("no states were given");
    };
    let mut merged = state.clone();
    merged.mark_shard();
    for (place, (path, state)) in others.iter().enumerate() {
        // Equal sums to the last bit, bin by bin, are the same rows.
        if let Some((same, _)) = states[..=place].iter().find(|(_, other)| other == state) {
            return Err(at(
                path,
                format_args!(
                    "this is the state of the same rows as {}; give each shard once",
                    same.display()
                ),
            ));
        }
        let refused = |e| {
            at(
                path,
                format_args!("it does not go with {}: {e}", first.display()),
            )
        };
        let mut shard = state.clone();
        shard.mark_shard();
        merged.merge(&shard).map_err(refused)?;
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
    let missing: Vec<Metric> = Metric::for_classes(merged.classes())
        .into_iter()
        .filter(|metric| !found.contains_key(metric))
        .collect();
    printer.json(&json!({
        "n": merged.rows(),
        "classes": merged.classes(),
        "rows": [{
            "name": "merged",
            "metrics": collect(&|value, _| value),
            "error_bound": collect(&|_, bound| bound),
        }],
        "missing": missing,
    }));
    printer.remark(format_args!(
        "{} of {} classes from {}",
        count(merged.rows(), "row", "rows"),
        merged.classes(),
        count(args.states.len(), "file", "files")
    ));
    let lines = found.iter().map(|(metric, estimate)| {
        let bound = match estimate.error_bound {
            bound if bound <= 0.0 => "exact".to_owned(),
            // A worst case above the value itself would tell nothing.
            bound if bound > estimate.value => "estimate, no useful bound".to_owned(),
            bound => format!("± {bound:.4}"),
        };
        vec![metric.to_string(), format!("{:.4}", estimate.value), bound]
    });
    let header = ["", "merged", "within"].map(str::to_owned).to_vec();
    printer.result(printer::table(header, lines.collect()));
    for metric in missing {
        printer.remark(format_args!(
            "{metric} is not in these states; `evaluate --metrics {metric} --state-out` keeps it"
        ));
    }
    Ok(Exit::Done)
}

/// Reads a state.
pub fn read(path: &Path) -> Result<MetricState> {
    let bytes = std::fs::read(path).map_err(|e| at(path, e))?;
    MetricState::from_bytes(&bytes).map_err(|e| at(path, e))
}
