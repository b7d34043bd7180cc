//! The windows of a stream: from a table with a column that tells them, or from states.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use ordercal::grouped::GroupKey;
use ordercal::memory;
use ordercal::metrics::{MetricOptions, MetricState};

use crate::args::{DataArgs, LabelArgs, MonitorArgs, SourceArgs};
use crate::commands::merge::read_states;
use crate::input::{DataInput, at};
use crate::measure::with_predictions;
use crate::models::{Columns, columns_of, load_models, open_labelled};
use crate::printer::Printer;

/// The segment of rows that are not divided.
const ALL: &str = "all rows";

/// A stream, divided.
pub struct Windows {
    /// The names of all windows, in their order.
    pub names: Vec<String>,
    /// For each segment the states of the windows that it has, with their places among the names.
    pub segments: Vec<(String, Vec<(usize, MetricState)>)>,
    /// The names of the classes, if they have names.
    pub classes: Option<Vec<String>>,
}

impl Windows {
    /// Reads the inputs; warnings about the data are printed.
    pub fn read(args: &MonitorArgs, printer: Printer) -> Result<Self> {
        match &args.by {
            Some(by) => Self::from_table(args, by, printer),
            None => Self::from_states(args),
        }
    }

    fn from_states(args: &MonitorArgs) -> Result<Self> {
        if args.source != SourceArgs::default() {
            bail!("options about columns, formats, kinds and classes go with --by");
        }
        let hint = "; a table of scores needs --by with the column of the window";
        let states = read_states(&args.inputs, "window", hint)?;
        let (first, classes) = (args.inputs[0].display(), states[0].1.classes());
        if let Some((path, other)) = states.iter().find(|(_, s)| s.classes() != classes) {
            let other = other.classes();
            let problem =
                format!("the state is of {other} classes, and that of {first} of {classes}");
            return Err(at(path, problem));
        }
        let (paths, states): (Vec<&Path>, Vec<MetricState>) = states.into_iter().unzip();
        let name = |path: &Path| path.file_stem().unwrap_or(path.as_os_str()).to_owned();
        let names = paths.into_iter().map(name);
        Ok(Self {
            names: names
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
            segments: vec![(ALL.to_owned(), states.into_iter().enumerate().collect())],
            classes: None,
        })
    }

    fn from_table(args: &MonitorArgs, by: &String, printer: Printer) -> Result<Self> {
        let models = load_models(args.model.as_slice())?;
        let keys: Vec<String> = args.segment.iter().chain([by]).cloned().collect();
        let by_model = models.iter().map(|named| named.model.by());
        let ids = columns_of(std::iter::once(&keys[..]).chain(by_model));
        let input = input(args)?.with_ids(&ids);
        input.check_format(None)?;
        let (reader, mut checks, others) = open_labelled(&input, &models)?;
        let classes = reader.class_names().map(<[String]>::to_vec);
        let empty = MetricState::new(reader.classes(), MetricOptions::default())?;
        let mut found: BTreeMap<GroupKey, MetricState> = BTreeMap::new();
        for chunk in reader {
            let chunk = chunk?;
            let data = chunk.dataset()?;
            if data.weights().is_some() {
                return Err(at(
                    input.path(),
                    "its rows have weights, and a row of the test is one bet: rename the column of the weights, or leave it out",
                ));
            }
            checks.add(&data);
            let (names, values) = (&ids[..], &chunk.ids[..]);
            let columns = Columns { names, values };
            for (key, rows) in columns.rows_of(&keys) {
                if !found.contains_key(&key) {
                    let bytes = empty.bytes().saturating_mul(found.len() + 1);
                    let what = "the sums of all windows of all segments";
                    memory::check(what, bytes).map_err(|e| at(input.path(), e))?;
                }
                let state = found.entry(key).or_insert_with(|| empty.clone());
                let values = &columns.keep(&rows)[..];
                let (data, columns) = (data.select(&rows), Columns { names, values });
                let applied = models.first().map(|named| named.model.applied());
                with_predictions(&data, columns, applied, |batch, _| state.update(batch))
                    .map_err(|e| chunk.locate(e))?;
            }
        }
        if found.is_empty() {
            return Err(at(input.path(), "there are no rows"));
        }
        let mut warnings = checks.evaluation();
        warnings.extend(others);
        printer.warn(input.path(), &warnings)?;
        Self::arrange(found, classes)
            .map_err(|e| at(input.path(), format_args!("column `{by}`: {e}")))
    }

    /// Puts windows in order; a key is the window's name, perhaps behind that of its segment.
    fn arrange(
        found: BTreeMap<GroupKey, MetricState>,
        classes: Option<Vec<String>>,
    ) -> Result<Self> {
        let divide = |mut key: GroupKey| {
            let window = key.pop().unwrap_or_default();
            (key.pop().unwrap_or_else(|| ALL.to_owned()), window)
        };
        let names: BTreeSet<String> = found.keys().map(|key| divide(key.clone()).1).collect();
        let names = in_order(names.into_iter().collect())?;
        let places = names.iter().zip(0..);
        let places: BTreeMap<&String, usize> = places.collect();
        let mut segments: BTreeMap<String, Vec<(usize, MetricState)>> = BTreeMap::new();
        for (key, state) in found {
            let (segment, window) = divide(key);
            let windows = segments.entry(segment).or_default();
            windows.push((places[&window], state));
        }
        let mut segments: Vec<_> = segments.into_iter().collect();
        segments.sort_by(|a, b| natural(&a.0, &b.0));
        for (_, windows) in &mut segments {
            windows.sort_by_key(|(place, _)| *place);
        }
        Ok(Self {
            names,
            segments,
            classes,
        })
    }
}

/// The one file of a table.
fn input(args: &MonitorArgs) -> Result<DataInput> {
    let [path] = &args.inputs[..] else {
        bail!(
            "--by is for one file with a column of windows, and {} were given",
            args.inputs.len()
        );
    };
    let data = DataArgs {
        data: Some(path.clone().into_os_string()),
        logits: None,
        labels: None,
        source: args.source.clone(),
    };
    let labels = LabelArgs {
        soft_labels: Vec::new(),
        ignore_label: args.ignore_label.clone(),
    };
    Ok(DataInput::resolve(&data, "test")?.with_labels(&labels))
}

/// The names of windows in the order in which people read them: numbers by value, others by [`natural`] order.
fn in_order(mut names: Vec<String>) -> Result<Vec<String>> {
    if names.iter().any(|name| name.trim().is_empty()) {
        bail!("a row has no window, its cell is empty; give it one, or leave the row out");
    }
    if let Some(name) = names.iter().find(|name| begins_with_day(name)) {
        bail!("`{name}` would be sorted by its day or month; write dates as 2024-12-31");
    }
    let number = |name: &String| name.trim().parse::<f64>().ok().filter(|n| !n.is_nan());
    if names.iter().all(|name| number(name).is_some()) {
        let value = |name: &String| number(name).unwrap_or(f64::NAN);
        names.sort_by(|a, b| value(a).total_cmp(&value(b)).then_with(|| natural(a, b)));
    } else {
        names.sort_by(|a, b| natural(a, b));
    }
    Ok(names)
}

/// Compares texts by their runs of digits and of other characters, digits by value: `week 2` comes before `week 10`, and
/// dates that begin with the year are in order.
fn natural(a: &str, b: &str) -> Ordering {
    runs(a).cmp(&runs(b)).then_with(|| a.cmp(b))
}

/// Runs of digits, without leading zeros and behind their length, and runs of other characters, which come after all digits.
fn runs(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits);
        let (run, tail) = rest.split_at(end.unwrap_or(rest.len()));
        let value = run.trim_start_matches('0');
        found.push(match digits {
            true => (value.len(), value),
            false => (usize::MAX, run),
        });
        rest = tail;
    }
    found
}

/// Whether a text is a date such as 31.12.2024 or 12/31/2024, perhaps with a time behind it.
fn begins_with_day(text: &str) -> bool {
    let mut parts = text.trim().splitn(3, ['.', '/', '-']);
    let mut next = || parts.next().unwrap_or("");
    let digits = |part: &str| part.bytes().take_while(u8::is_ascii_digit).count();
    let is_day = |part: &str| matches!(part.len(), 1 | 2) && digits(part) == part.len();
    is_day(next()) && is_day(next()) && digits(next()) == 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_sorted_as_people_read_them() {
        let sorted = |names: &[&str]| in_order(names.iter().map(|&n| n.to_owned()).collect());
        for expected in [
            &["-10", "-9.5", "2", "10", "1e3"][..],
            &["9007199254740992", "9007199254740993"],
            &["week 2", "week 10", "week 10b", "week 11"],
            &["2023-12-31", "2024-01-02", "2024-01-10", "2024-10-01"],
            &["2024-1-2", "2024-1-10", "2024-10-1"],
            &["2024-01-02T09:00", "2024-01-02T10:00"],
            &["7", "08", "9", "before", "later"],
            &["2024 W9", "2024 W10", "2025 W1"],
            &["März", "Über"],
        ] {
            let mut shuffled = expected.to_vec();
            shuffled.reverse();
            assert_eq!(sorted(&shuffled).unwrap(), expected);
        }
        for (name, said) in [
            ("31.12.2024", "2024-12-31"),
            ("1/2/2024 10:00", "2024-12-31"),
            ("12-31-2024", "2024-12-31"),
            (" ", "no window"),
        ] {
            let error = sorted(&["2", name]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        assert!(!begins_with_day("1.2.3") && !begins_with_day("10.12.20240"));
    }
}
