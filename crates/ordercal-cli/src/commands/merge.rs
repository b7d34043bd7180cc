//! `ordercal merge`: the metrics of several shards together.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use ordercal::metrics::{Metric, MetricState};
use ordercal::words::count;
use ordercal_io::write_atomically;
use serde_json::{Map, Value, json};

use crate::args::MergeArgs;
use crate::exit::Exit;
use crate::input::at;
use crate::printer::{self, Printer};

pub fn run(args: &MergeArgs, printer: Printer) -> Result<Exit> {
    let states = read_states(&args.states, "shard", "")?;
    let Some(((first, state), others)) = states.split_first() else {
        bail!("no states were given");
    };
    let mut merged = state.clone();
    merged.mark_shard();
    for (path, state) in others {
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
    let header = ["", "merged", "within"];
    printer.result(printer::table(header, lines.collect()));
    for metric in missing {
        printer.remark(format_args!(
            "{metric} is not in these states; `evaluate --metrics {metric} --state-out` keeps it"
        ));
    }
    Ok(Exit::Done)
}

/// Reads states, each of a `part`; the state of the same rows as another is refused. A `hint` follows the error of a file
/// that is no state.
pub fn read_states<'a>(
    paths: &'a [PathBuf],
    part: &str,
    hint: &str,
) -> Result<Vec<(&'a Path, MetricState)>> {
    let mut states: Vec<(&Path, MetricState)> = Vec::new();
    for path in paths {
        let bytes = std::fs::read(path).map_err(|e| at(path, format_args!("{e}{hint}")))?;
        let state = MetricState::from_bytes(&bytes);
        let state = state.map_err(|e| at(path, format_args!("{e}{hint}")))?;
        // Equal sums to the last bit, bin by bin, are the same rows.
        if let Some((same, _)) = states.iter().find(|(_, other)| *other == state) {
            let same = same.display();
            let problem =
                format!("this is the state of the same rows as {same}; give each {part} once");
            return Err(at(path, problem));
        }
        states.push((path, state));
    }
    Ok(states)
}
