//! Which columns of a table are scores, label and weight.

use std::path::Path;

use ordercal::{ScoreKind, match_class_names};

use crate::archive::list;
use crate::bundle::unknown_split;
use crate::choice::{LABELS, one_label};
use crate::data_ref::DataRef;
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::reader::{LabelNeed, ReadOptions};
use crate::row_source::Wanted;

/// For each kind of scores, the prefix of its columns, the name of its list column, and the name of a single column
/// with the scores of the second of two classes.
pub(crate) const KINDS: [(ScoreKind, &str, &str, &str); 3] = [
    (ScoreKind::Logits, "logit_", "logits", "logit"),
    (ScoreKind::LogProbs, "log_prob_", "log_probs", "log_prob"),
    (ScoreKind::Probs, "prob_", "probs", "prob"),
];

/// Where a row's scores are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScoreColumns {
    /// One column per class, in the order of the classes. A single column is the second of two classes.
    Wide(Vec<usize>),
    /// One column that holds lists.
    List(usize),
}

/// The columns that are read, as positions in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableColumns {
    pub(crate) kind: ScoreKind,
    pub(crate) scores: ScoreColumns,
    pub(crate) label: Option<usize>,
    pub(crate) weight: Option<usize>,
    /// What is handed through.
    pub(crate) ids: Vec<usize>,
    /// What follows the prefix `logit_`, unless those are numbers.
    pub(crate) class_names: Option<Vec<String>>,
    /// The names of columns that are not read although they look like labels or weights.
    pub(crate) ignored: Vec<String>,
}

impl TableColumns {
    /// Every column that is read.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = match &self.scores {
            ScoreColumns::Wide(columns) => columns.clone(),
            ScoreColumns::List(column) => vec![*column],
        };
        columns.extend(self.label);
        columns.extend(self.weight);
        columns.extend(&self.ids);
        columns
    }
}

/// The columns of a table before it is known what they are.
pub(crate) struct Header<'a> {
    pub(crate) names: &'a [String],
    /// Whether the names are in the file; otherwise they are the columns' numbers.
    pub(crate) named: bool,
    /// Whether a column holds lists.
    pub(crate) is_list: &'a dyn Fn(usize) -> bool,
}

/// Finds the columns by their names.
pub(crate) fn find(
    data: &DataRef,
    header: &Header<'_>,
    options: &ReadOptions,
    wanted: Wanted,
) -> Result<TableColumns> {
    let (path, names, choice) = (data.path(), header.names, &options.columns);
    if wanted == Wanted::Labels {
        return Ok(TableColumns {
            kind: ScoreKind::default(),
            scores: ScoreColumns::Wide(Vec::new()),
            label: Some(label_column(path, names, choice.label.as_ref())?),
            weight: None,
            ids: Vec::new(),
            class_names: None,
            ignored: Vec::new(),
        });
    }
    if let Some(split) = data.split() {
        return Err(unknown_split(path, split, Vec::new()));
    }
    let position = |name: &String| named(path, names, name);
    // The groups come last.
    let ids = choice.ids.iter().chain(&choice.groups);
    let ids: Vec<usize> = ids.map(position).collect::<Result<_>>()?;
    let ignored = options.labels == LabelNeed::Ignored;
    let soft = match choice.soft_labels.is_empty() {
        true => None,
        false => Some(chosen(path, header, &choice.soft_labels, &ids)?),
    };
    let label = match (&choice.label, &soft) {
        (_, Some(soft)) => match soft.scores {
            ScoreColumns::List(column) => Some(column),
            ScoreColumns::Wide(_) => None,
        },
        (Some(name), _) => Some(position(name)?),
        _ if ignored => find_label(path, names).unwrap_or(None),
        _ => find_label(path, names)?,
    };
    let shares = match &soft {
        Some(Found {
            scores: ScoreColumns::Wide(shares),
            ..
        }) => &shares[..],
        _ => &[],
    };
    let taken = ids.iter().copied().chain(label);
    let taken: Vec<usize> = taken.chain(shares.iter().copied()).collect();
    let mut found = if choice.scores.is_empty() {
        by_kind(path, header, options.kind, &taken)?
    } else {
        chosen(path, header, &choice.scores, &taken)?
    };
    let has_shares = !shares.is_empty() && !ignored;
    if let Some(soft) = soft.as_ref().filter(|_| has_shares) {
        append_shares(path, names, &mut found, soft)?;
    }
    // Who lists columns one by one and names the classes, too, has paired the two lists.
    let listed = !choice.scores.is_empty() && !choice.scores.iter().any(|s| s.ends_with('*'));
    let renamed = listed && options.class_names.is_some();
    let weight = names.iter().position(|n| n == "weight" || n == "weights");
    let mut table = TableColumns {
        kind: match found.kind {
            ScoreKind::Logits => options.kind.unwrap_or(found.kind),
            said => said,
        },
        scores: found.scores,
        label: label.filter(|_| !ignored),
        weight: weight.filter(|_| !ignored),
        ids,
        // A single column is one of two classes.
        class_names: found
            .class_names
            .filter(|names| names.len() > 1 && !renamed),
        ignored: Vec::new(),
    };
    if !ignored {
        let read = table.columns();
        let others = (0..names.len()).filter(|column| !read.contains(column));
        table.ignored = others
            .filter(|&column| looks_meaningful(&names[column], choice.label.is_some()))
            .map(|column| names[column].clone())
            .collect();
    }
    for &column in &table.columns() {
        if names.iter().filter(|n| **n == names[column]).count() > 1 {
            return Err(Error::duplicate(path, &names[column]));
        }
    }
    if options.labels == LabelNeed::Required && table.label.is_none() && !has_shares {
        return Err(no_label(path, header));
    }
    Ok(table)
}

/// Adds the columns of soft labels to those of the scores, behind them and in the same order of the classes.
fn append_shares(path: &Path, names: &[String], found: &mut Found, soft: &Found) -> Result<()> {
    let (ScoreColumns::Wide(scores), ScoreColumns::Wide(shares)) = (&found.scores, &soft.scores)
    else {
        return Err(missing(
            path,
            "a column of scores for each soft label",
            names,
        ));
    };
    let mut shares = shares.clone();
    if let (Some(classes), Some(others)) = (&found.class_names, &soft.class_names) {
        let places = match_class_names(others, classes, "the scores");
        let places = places.map_err(|source| Error::data(path, source))?;
        if let Some(places) = places {
            shares = places.into_iter().map(|place| shares[place]).collect();
        }
    }
    if scores.len() != shares.len() {
        return Err(Error::data(
            path,
            ordercal::Error::LengthMismatch {
                what: "columns of soft labels",
                found: shares.len(),
                rows: scores.len(),
            },
        ));
    }
    found.scores = ScoreColumns::Wide([&scores[..], &shares].concat());
    Ok(())
}

/// The column with a name.
pub(crate) fn named(path: &Path, names: &[String], name: &str) -> Result<usize> {
    let found = names.iter().position(|n| n == name);
    found.ok_or_else(|| missing(path, name, names))
}

fn find_label(path: &Path, names: &[String]) -> Result<Option<usize>> {
    let rank = |name: &String| LABELS.iter().position(|label| label == name);
    let candidates = names.iter().enumerate();
    let candidates = candidates.filter_map(|(column, name)| Some((rank(name)?.max(1), column)));
    one_label(candidates.collect(), |first, second| {
        let (first, second) = (names[first].clone(), names[second].clone());
        if first == second {
            Error::duplicate(path, first)
        } else {
            Error::AmbiguousLabels {
                path: path.to_path_buf(),
                first,
                second,
            }
        }
    })
}

fn no_label(path: &Path, header: &Header<'_>) -> Error {
    let names = header.names;
    let near = nearest("label", names.iter().map(String::as_str));
    let near = near.filter(|_| header.named);
    let expected = match near {
        _ if !header.named => {
            "--label-column with the number of a column, because the file has no header".to_owned()
        }
        Some(near) => format!(
            "a column named `label` (rename `{near}`?), or --label-column with the name of another"
        ),
        None => "a column named `label`, or --label-column with the name of another".to_owned(),
    };
    Error::no_labels(path, expected, show(names))
}

/// Scores that were found.
#[derive(Clone)]
struct Found {
    kind: ScoreKind,
    scores: ScoreColumns,
    class_names: Option<Vec<String>>,
}

/// The scores that the names tell.
fn by_kind(
    path: &Path,
    header: &Header<'_>,
    hint: Option<ScoreKind>,
    taken: &[usize],
) -> Result<Found> {
    let names = header.names;
    let free = |column: &usize| !taken.contains(column);
    let mut found = Vec::new();
    for (kind, prefix, list, single) in KINDS {
        let with_prefix =
            |&i: &usize| names[i].len() > prefix.len() && names[i].starts_with(prefix);
        let wide: Vec<usize> = (0..names.len()).filter(free).filter(with_prefix).collect();
        let called = |wanted: &str, lists: bool| {
            let mut columns = (0..names.len()).filter(free);
            columns.find(|&c| names[c] == wanted && (header.is_list)(c) == lists)
        };
        if !wide.is_empty() {
            found.push((kind, ScoreColumns::Wide(wide)));
        }
        if let Some(column) = called(list, true) {
            found.push((kind, ScoreColumns::List(column)));
        }
        if let Some(column) = called(single, false) {
            found.push((kind, ScoreColumns::Wide(vec![column])));
        }
    }
    let hinted = hint.and_then(|hint| found.iter().find(|(kind, _)| *kind == hint));
    let (kind, scores) = match (found.as_slice(), hinted) {
        ([], _) => return numbered(path, header, taken),
        ([only], _) => only.clone(),
        (_, Some(hinted)) => hinted.clone(),
        (several, None) => {
            return Err(Error::AmbiguousScores {
                path: path.to_path_buf(),
                first: first_name(&several[0].1, names).to_owned(),
                second: first_name(&several[1].1, names).to_owned(),
            });
        }
    };
    let (scores, class_names) = match scores {
        ScoreColumns::Wide(columns) if columns.len() > 1 => {
            let prefix = KINDS.iter().find(|k| k.0 == kind).map_or("", |k| k.1);
            let (columns, names) = order_columns(path, names, columns, prefix)?;
            (ScoreColumns::Wide(columns), names)
        }
        scores => (scores, None),
    };
    Ok(Found {
        kind,
        scores,
        class_names,
    })
}

/// The columns of a table without names, or those that pandas called 0, 1, 2 and so on.
fn numbered(path: &Path, header: &Header<'_>, taken: &[usize]) -> Result<Found> {
    let names = header.names;
    let free = (0..names.len()).filter(|column| !taken.contains(column));
    let columns: Vec<usize> = if header.named {
        let counts = |&column: &usize| names[column].parse::<usize>().is_ok();
        let columns: Vec<usize> = free.filter(counts).collect();
        match columns.is_empty() {
            true => columns,
            false => order_columns(path, names, columns, "")?.0,
        }
    } else {
        free.collect()
    };
    if columns.is_empty() {
        return Err(no_scores(path, header));
    }
    Ok(Found {
        kind: ScoreKind::Logits,
        scores: ScoreColumns::Wide(columns),
        class_names: None,
    })
}

/// The scores that the user chose.
fn chosen(path: &Path, header: &Header<'_>, patterns: &[String], taken: &[usize]) -> Result<Found> {
    let names = header.names;
    let mut columns = Vec::new();
    let mut class_names: Option<Vec<String>> = Some(Vec::new());
    for pattern in patterns {
        let (more, called) = match pattern.strip_suffix('*') {
            Some(prefix) => {
                let starts = |&c: &usize| names[c].starts_with(prefix) && !taken.contains(&c);
                let matching: Vec<usize> = (0..names.len()).filter(starts).collect();
                if matching.is_empty() {
                    return Err(missing(path, pattern, names));
                }
                order_columns(path, names, matching, prefix)?
            }
            None => {
                let column = names.iter().position(|name| name == pattern);
                let column = column.ok_or_else(|| missing(path, pattern, names))?;
                let prefixes = KINDS.iter().map(|k| k.1);
                let mut inner = prefixes.filter_map(|prefix| pattern.strip_prefix(prefix));
                let name = inner.next().unwrap_or(pattern).to_owned();
                let number = name.parse::<usize>().is_ok();
                (vec![column], (!number).then(|| vec![name]))
            }
        };
        columns.extend(more);
        class_names = class_names
            .zip(called)
            .map(|(all, more)| [all, more].concat());
    }
    let kind_of = |column: &usize| {
        let name = &names[*column];
        let says = |k: &&(ScoreKind, &str, &str, &str)| {
            name.starts_with(k.1) || name == k.2 || name == k.3
        };
        KINDS.iter().find(says).map_or(ScoreKind::Logits, |k| k.0)
    };
    let kind = kind_of(&columns[0]);
    if let Some(other) = columns.iter().find(|column| kind_of(column) != kind) {
        return Err(Error::AmbiguousScores {
            path: path.to_path_buf(),
            first: names[columns[0]].clone(),
            second: names[*other].clone(),
        });
    }
    let scores = match columns.as_slice() {
        &[column] if (header.is_list)(column) => {
            class_names = None;
            ScoreColumns::List(column)
        }
        _ => ScoreColumns::Wide(columns),
    };
    Ok(Found {
        kind,
        scores,
        class_names,
    })
}

/// Whether the name of a column or array suggests that it holds weights or, unless the user chose them, labels.
pub(crate) fn looks_meaningful(name: &str, labels_chosen: bool) -> bool {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let is = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    let like_labels = is(&["label", "labels", "target", "targets"])
        || ["y", "y_true", "ytrue"].contains(&name.as_str());
    is(&["weight", "weights"]) || (like_labels && !labels_chosen)
}

fn missing(path: &Path, column: &str, names: &[String]) -> Error {
    Error::missing_column(path, column, show(names))
}

/// The only column, the chosen one, or one with a usual name: for a table that holds nothing but labels.
fn label_column(path: &Path, names: &[String], chosen: Option<&String>) -> Result<usize> {
    if let Some(name) = chosen {
        return named(path, names, name);
    }
    match (find_label(path, names)?, names.len()) {
        (Some(column), _) => Ok(column),
        (None, 1) => Ok(0),
        (None, _) => {
            let expected = "one column, one named `label`, or --label-column";
            Err(Error::no_labels(path, expected, show(names)))
        }
    }
}

/// Puts score columns in the order of the classes. What follows the prefix are either the numbers 0 to K − 1, by
/// which columns are sorted, or the names of the classes, in the order of the file.
fn order_columns(
    path: &Path,
    names: &[String],
    columns: Vec<usize>,
    prefix: &str,
) -> Result<(Vec<usize>, Option<Vec<String>>)> {
    let suffixes: Vec<&str> = columns.iter().map(|&c| &names[c][prefix.len()..]).collect();
    let numbers: Option<Vec<usize>> = suffixes.iter().map(|s| s.parse().ok()).collect();
    let Some(numbers) = numbers else {
        let names = suffixes.into_iter().map(str::to_owned).collect();
        return Ok((columns, Some(names)));
    };
    let mut ordered: Vec<(usize, usize)> = numbers.into_iter().zip(columns).collect();
    ordered.sort_unstable();
    for (class, window) in ordered.iter().enumerate() {
        if window.0 > class {
            return Err(Error::missing_column(
                path,
                format!("{prefix}{class}"),
                show(names),
            ));
        }
        if window.0 < class {
            return Err(Error::duplicate(path, format!("{prefix}{}", window.0)));
        }
    }
    Ok((
        ordered.into_iter().map(|(_, column)| column).collect(),
        None,
    ))
}

fn no_scores(path: &Path, header: &Header<'_>) -> Error {
    let names = header.names;
    let near = nearest("logit_0", names.iter().map(String::as_str));
    let hint = match (near, names) {
        (Some(near), _) => format!(" (rename `{near}`?)"),
        (None, [only]) if only.contains([';', '\t', '|']) => {
            let mark = only.chars().find(|c| [';', '\t', '|'].contains(c));
            let mark = match mark {
                Some(mark) if mark != '\t' => mark.to_string(),
                _ => "tab".to_owned(),
            };
            format!("; are the columns separated by another mark? Then say --delimiter '{mark}'")
        }
        _ => String::new(),
    };
    Error::NoScores {
        path: path.to_path_buf(),
        expected: format!(
            "columns named `logit_0`, `logit_1` and so on (or `prob_`, `log_prob_`), a list column `logits`, or \
             --score-columns with the names of others{hint}"
        ),
        present: show(names),
    }
}

fn first_name<'a>(columns: &ScoreColumns, names: &'a [String]) -> &'a str {
    match columns {
        ScoreColumns::Wide(columns) => &names[columns[0]],
        ScoreColumns::List(column) => &names[*column],
    }
}

/// The names of columns, for an error message.
pub(crate) fn show(names: &[String]) -> String {
    list(names.iter().map(|n| format!("`{n}`")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::ColumnChoice;

    fn found(names: &[&str], options: ReadOptions) -> Result<TableColumns> {
        let names: Vec<String> = names.iter().map(|&n| n.into()).collect();
        let header = Header {
            names: &names,
            named: true,
            is_list: &|column| names[column].ends_with("gits"),
        };
        find(&DataRef::new("f.csv"), &header, &options, Wanted::Scores)
    }

    fn choose(choice: ColumnChoice) -> ReadOptions {
        ReadOptions::default().with_columns(choice)
    }

    #[test]
    fn columns_can_be_chosen() {
        let names = ["day", "s_b", "s_a", "truth", "s_c", "id", "y"];
        let choice = ColumnChoice::default()
            .with_label("truth")
            .with_scores(["s_*"].map(String::from))
            .with_ids(["id", "day"].map(String::from));
        let table = found(&names, choose(choice.clone())).unwrap();
        assert_eq!(table.scores, ScoreColumns::Wide(vec![1, 2, 4]));
        assert_eq!((table.label, table.ids), (Some(3), vec![5, 0]));
        assert_eq!(table.class_names.unwrap(), ["b", "a", "c"]);
        let table = found(
            &names,
            choose(choice.with_scores(["s_a", "s_c"].map(String::from))),
        )
        .unwrap();
        assert_eq!(table.scores, ScoreColumns::Wide(vec![2, 4]));
        assert_eq!(table.class_names.unwrap(), ["s_a", "s_c"]);
        // Given names are for columns in the order of the list; those behind a prefix are the file's own.
        let given = Some(vec!["cat".to_owned(), "cow".to_owned()]);
        for (scores, own) in [("s_a s_c", None), ("s_*", Some(3))] {
            let scores: Vec<String> = scores.split(' ').map(String::from).collect();
            let options = choose(ColumnChoice::default().with_scores(scores));
            let table = found(&names, options.with_class_names(given.clone())).unwrap();
            assert_eq!(table.class_names.map(|names| names.len()), own);
        }
        for choice in [
            ColumnChoice::default().with_scores(["x*"].map(String::from)),
            ColumnChoice::default().with_scores(["s_a", "s_d"].map(String::from)),
            ColumnChoice::default().with_label("lable"),
            ColumnChoice::default().with_ids(["nr"].map(String::from)),
        ] {
            let error = found(&names, choose(choice)).unwrap_err();
            assert!(matches!(error, Error::MissingColumn { .. }), "{error}");
        }
        let mixed = ["logit_0", "prob_1"];
        let error = found(
            &mixed,
            choose(ColumnChoice::default().with_scores(mixed.map(String::from))),
        )
        .unwrap_err();
        assert!(matches!(error, Error::AmbiguousScores { .. }), "{error}");
    }

    #[test]
    fn labels_have_several_usual_names() {
        for name in LABELS {
            let table = found(&["logit_0", name, "logit_1"], ReadOptions::default()).unwrap();
            assert_eq!(table.label, Some(1), "{name}");
        }
        let both = ["y", "logit_0", "logit_1", "label"];
        let table = found(&both, ReadOptions::default()).unwrap();
        assert_eq!(table.label, Some(3));
        let error = found(
            &["y", "target", "logit_0", "logit_1"],
            ReadOptions::default(),
        );
        assert!(matches!(error, Err(Error::AmbiguousLabels { .. })));
    }

    #[test]
    fn numbers_of_pandas_are_scores_and_its_index_is_not() {
        let table = found(&["", "1", "0", "2", "y"], ReadOptions::default()).unwrap();
        assert_eq!(table.scores, ScoreColumns::Wide(vec![2, 1, 3]));
        assert_eq!((table.label, table.class_names), (Some(4), None));
        let error = found(&["0", "2"], ReadOptions::default()).unwrap_err();
        assert!(matches!(error, Error::MissingColumn { .. }), "{error}");
    }

    #[test]
    fn a_single_column_is_one_of_two_classes() {
        let table = found(&["prob", "label"], ReadOptions::default()).unwrap();
        assert_eq!(table.scores, ScoreColumns::Wide(vec![0]));
        assert_eq!(table.kind, ScoreKind::Probs);
    }

    #[test]
    fn columns_are_found_whatever_their_order() {
        let names = ["id", "logit_2", "label", "logit_0", "weight", "logit_1"];
        let table = found(&names, ReadOptions::default()).unwrap();
        assert_eq!(table.scores, ScoreColumns::Wide(vec![3, 5, 1]));
        assert_eq!(
            (table.label, table.weight, table.class_names),
            (Some(2), Some(4), None)
        );
    }

    #[test]
    fn columns_that_look_meaningful_and_are_not_read_are_listed() {
        let names = [
            "logit_0",
            "logit_1",
            "label",
            "Sample_Weight",
            "y_true",
            "id",
        ];
        let table = found(&names, ReadOptions::default()).unwrap();
        assert_eq!(table.ignored, ["Sample_Weight", "y_true"]);
        let chosen = choose(ColumnChoice::default().with_label("y_true"));
        assert_eq!(found(&names, chosen).unwrap().ignored, ["Sample_Weight"]);
        let unread = ReadOptions::default().with_labels(LabelNeed::Ignored);
        assert_eq!(found(&names, unread).unwrap().ignored, [""; 0]);
    }

    #[test]
    fn ten_columns_are_ordered_by_number_not_by_letter() {
        let names: Vec<String> = (0..12).rev().map(|i| format!("prob_{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let table = found(&names, ReadOptions::default()).unwrap();
        assert_eq!(table.scores, ScoreColumns::Wide((0..12).rev().collect()));
        assert_eq!(table.kind, ScoreKind::Probs);
    }

    #[test]
    fn names_after_the_prefix_are_class_names() {
        let table = found(&["log_prob_dog", "log_prob_cat"], ReadOptions::default()).unwrap();
        assert_eq!(table.class_names.unwrap(), ["dog", "cat"]);
        assert_eq!(table.kind, ScoreKind::LogProbs);
    }

    #[test]
    fn gaps_and_repetitions_are_errors() {
        let error = found(&["logit_0", "logit_2"], ReadOptions::default()).unwrap_err();
        assert!(matches!(error, Error::MissingColumn { column, .. } if column == "logit_1"));
        let error = found(&["logit_0", "logit_1", "logit_1"], ReadOptions::default()).unwrap_err();
        assert!(matches!(error, Error::Duplicate { name, .. } if name == "logit_1"));
        let error = found(&["logit_0", "logit_1", "prob_0"], ReadOptions::default()).unwrap_err();
        assert!(matches!(error, Error::AmbiguousScores { .. }));
        let required = ReadOptions::default().with_labels(LabelNeed::Required);
        let error = found(&["logit_0", "logit_1", "lable"], required).unwrap_err();
        assert!(
            matches!(&error, Error::NoLabels { expected, .. } if expected.contains("`lable`")),
            "{error}"
        );
    }

    #[test]
    fn a_list_column_will_do() {
        let table = found(&["labels", "logits"], ReadOptions::default()).unwrap();
        assert_eq!(
            (table.scores, table.label),
            (ScoreColumns::List(1), Some(0))
        );
    }
}
