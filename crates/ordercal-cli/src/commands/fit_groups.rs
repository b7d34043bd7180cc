//! `ordercal fit --by`: fits a model for all rows, and one for each group.

use std::time::Instant;

use anyhow::Result;
use ordercal::Method;
use ordercal::diagnose::RowChecks;
use ordercal::grouped::{GroupFit, GroupReport, RowGroups};
use ordercal::words::count;
use ordercal_io::SavedGroups;
use serde_json::json;

use crate::args::{Common, FitArgs};
use crate::exit::Exit;
use crate::input::{DataInput, at, ignored};
use crate::printer::{self, MOST_GROUPS, Printer};

pub fn run(
    args: &FitArgs,
    common: &Common,
    method: &Method,
    input: &DataInput,
    printer: Printer,
) -> Result<Exit> {
    let mut how = GroupFit::new(method.clone())?;
    if let Some(key) = &args.group_method {
        how.group_method = Method::from_key(key)?;
    }
    how.min_rows = args.min_rows.unwrap_or(how.min_rows);
    how.seed = common.seed.unwrap_or(how.seed);
    let loaded = input.load()?;
    let data = loaded.dataset()?;
    let mut warnings = RowChecks::of(&data).before_fit();
    warnings.extend(ignored(loaded.ignored()));
    printer.warn(input.path(), &warnings)?;
    let groups = RowGroups::new(loaded.rows(), |row| {
        loaded.ids().iter().map(|ids| ids.text(row)).collect()
    });
    let start = Instant::now();
    let fitted = printer.watched("groups", |watch| how.fit(&data, &groups, watch));
    let fitted = fitted.map_err(|e| at(input.path(), e))?;
    let seconds = start.elapsed().as_secs_f64();
    let saved = SavedGroups::new(args.by.clone(), &how, fitted, |pooled| {
        pooled
            .with_class_names(loaded.class_names().map(<[String]>::to_vec))
            .with_kind(loaded.kind())
            .with_data(data.fingerprint())
    });
    saved.save(&args.output)?;
    let report = &saved.report;
    printer.json(&json!({
        "method": method.key(),
        "group_method": how.group_method.key(),
        "by": args.by,
        "order_preserving": saved.model.order_preserving(),
        "n": data.rows(),
        "classes": data.classes(),
        "nll_before": report.pooled.nll_before,
        "nll_pooled": report.nll_pooled,
        "nll_separate": report.nll_separate,
        "nll_after": report.nll_after,
        "shrinkage": report.shrinkage,
        "groups": report.groups,
        "seconds": seconds,
        "model": args.output.to_string_lossy(),
    }));
    explain(&saved, printer);
    printer.remark(format_args!("model written to {}", args.output.display()));
    Ok(Exit::Done)
}

/// Says how much groups differ from all rows, and what became of each.
pub fn explain(saved: &SavedGroups, printer: Printer) {
    let report = &saved.report;
    let coarsest = report.groups.iter().filter(|g| g.key.len() == 1);
    let rows: usize = coarsest.map(|g| g.rows).sum();
    let own = report.groups.iter().filter(|g| g.fallback.is_none());
    printer.result(format_args!(
        "{} in {}, {} of them with a map of their own",
        count(rows, "row", "rows"),
        count(report.groups.len(), "group", "groups"),
        own.count()
    ));
    printer.result(format_args!(
        "held-out NLL: {:.4} with one model for all rows, {:.4} with a map per group alone, {:.4} as mixed here",
        report.nll_pooled, report.nll_separate, report.nll_after
    ));
    for (column, chosen) in saved.by.iter().zip(&report.shrinkage) {
        printer.result(match chosen {
            Some(m) => format!("{column}: a map of n rows has the weight n/(n + {m:.0})"),
            None => format!("{column}: no map of its own, held-out rows are better without"),
        });
    }
    let line = |group: &GroupReport| {
        let fallback = match group.fallback.as_deref() {
            None => format!("{:.2}", group.weight),
            Some([]) => "that of all rows".to_owned(),
            Some(key) => format!("that of {}", key.join(", ")),
        };
        vec![
            group.key.join(", "),
            group.rows.to_string(),
            fallback,
            format!("{:.4}", group.nll_before),
            format!("{:.4}", group.nll_parent),
            format!("{:.4}", group.nll_after),
        ]
    };
    let header = [
        "group",
        "rows",
        "own map\u{2019}s weight",
        "NLL before",
        "parent\u{2019}s",
        "after",
    ];
    let lines = report.groups.iter().take(MOST_GROUPS).map(line).collect();
    printer.result(printer::table(header, lines));
    printer.left_out(report.groups.len());
}
