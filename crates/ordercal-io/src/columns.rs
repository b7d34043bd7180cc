//! Which columns of a table are scores, label and weight.

use std::path::Path;

use ordercal::ScoreKind;

use crate::archive::list;
use crate::bundle::unknown_split;
use crate::data_ref::DataRef;
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::reader::{LabelNeed, ReadOptions};

/// For each kind of scores, the prefix of its columns and the name of its list column.
const KINDS: [(ScoreKind, &str, &str); 3] = [
    (ScoreKind::Logits, "logit_", "logits"),
    (ScoreKind::LogProbs, "log_prob_", "log_probs"),
    (ScoreKind::Probs, "prob_", "probs"),
];

/// Where a row's scores are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScoreColumns {
    /// One column per class, in the order of the classes.
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
        columns
    }
}

/// Finds the columns by their names. `lists` says whether a column can hold lists.
pub(crate) fn find(
    data: &DataRef,
    names: &[String],
    lists: bool,
    options: &ReadOptions,
) -> Result<TableColumns> {
    let path = data.path();
    if let Some(split) = data.split() {
        return Err(unknown_split(path, split, Vec::new()));
    }
    let found: Vec<(ScoreKind, ScoreColumns)> = KINDS
        .iter()
        .flat_map(|&(kind, prefix, list)| {
            let wide: Vec<usize> = (0..names.len())
                .filter(|&i| names[i].len() > prefix.len() && names[i].starts_with(prefix))
                .collect();
            let wide = (!wide.is_empty()).then_some((kind, ScoreColumns::Wide(wide)));
            let list = names.iter().position(|n| n == list).filter(|_| lists);
            wide.into_iter()
                .chain(list.map(|column| (kind, ScoreColumns::List(column))))
        })
        .collect();
    let hinted = options
        .kind
        .and_then(|hint| found.iter().find(|(kind, _)| *kind == hint));
    let (kind, scores) = match (found.as_slice(), hinted) {
        ([], _) => return Err(no_scores(path, names, lists)),
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
        ScoreColumns::Wide(columns) => {
            let prefix = KINDS.iter().find(|k| k.0 == kind).map_or("", |k| k.1);
            let (columns, names) = order_columns(path, names, columns, prefix)?;
            (ScoreColumns::Wide(columns), names)
        }
        list => (list, None),
    };
    let ignored = options.labels == LabelNeed::Ignored;
    let position = |wanted: [&str; 2]| {
        let found = names.iter().position(|n| wanted.contains(&n.as_str()));
        found.filter(|_| !ignored)
    };
    let mut table = TableColumns {
        kind: match kind {
            ScoreKind::Logits => options.kind.unwrap_or(kind),
            said => said,
        },
        scores,
        label: position(["label", "labels"]),
        weight: position(["weight", "weights"]),
        class_names,
        ignored: Vec::new(),
    };
    if !ignored {
        let read = table.columns();
        let others = (0..names.len()).filter(|column| !read.contains(column));
        table.ignored = others
            .filter(|&column| looks_meaningful(&names[column]))
            .map(|column| names[column].clone())
            .collect();
    }
    for &column in &table.columns() {
        if names.iter().filter(|n| **n == names[column]).count() > 1 {
            return Err(Error::Duplicate {
                path: path.to_path_buf(),
                name: names[column].clone(),
            });
        }
    }
    if options.labels == LabelNeed::Required && table.label.is_none() {
        let near = nearest("label", names.iter().map(String::as_str));
        let hint = near.map_or(String::new(), |n| format!(" (rename `{n}`?)"));
        return Err(Error::NoLabels {
            path: path.to_path_buf(),
            expected: format!("a column named `label`{hint}"),
            present: show(names),
        });
    }
    Ok(table)
}

/// Whether the name of a column or array suggests that it holds labels or weights.
pub(crate) fn looks_meaningful(name: &str) -> bool {
    let name = name.to_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_alphanumeric()).collect();
    let is = |wanted: &[&str]| words.iter().any(|word| wanted.contains(word));
    is(&["weight", "weights", "label", "labels", "target", "targets"])
        || ["y", "y_true", "ytrue"].contains(&name.as_str())
}

/// The only column, or the one named `label`: for a table that holds nothing but labels.
pub(crate) fn label_column(path: &Path, names: &[String]) -> Result<usize> {
    let named = names.iter().position(|n| n == "label" || n == "labels");
    match (named, names.len()) {
        (Some(column), _) => Ok(column),
        (None, 1) => Ok(0),
        (None, _) => Err(Error::NoLabels {
            path: path.to_path_buf(),
            expected: "one column, or one named `label`".into(),
            present: show(names),
        }),
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
            return Err(Error::MissingColumn {
                path: path.to_path_buf(),
                column: format!("{prefix}{class}"),
                present: show(names),
            });
        }
        if window.0 < class {
            return Err(Error::Duplicate {
                path: path.to_path_buf(),
                name: format!("{prefix}{}", window.0),
            });
        }
    }
    Ok((
        ordered.into_iter().map(|(_, column)| column).collect(),
        None,
    ))
}

fn no_scores(path: &Path, names: &[String], lists: bool) -> Error {
    let list = if lists {
        ", or a list column `logits`"
    } else {
        ""
    };
    let near = nearest("logit_0", names.iter().map(String::as_str));
    let hint = near.map_or(String::new(), |n| format!(" (rename `{n}`?)"));
    Error::NoScores {
        path: path.to_path_buf(),
        expected: format!(
            "columns named `logit_0`, `logit_1` and so on (or `prob_`, `log_prob_`){list}{hint}"
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

    fn found(names: &[&str], options: ReadOptions) -> Result<TableColumns> {
        let names: Vec<String> = names.iter().map(|&n| n.into()).collect();
        find(&DataRef::new("f.csv"), &names, true, &options)
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
            "labels",
        ];
        let table = found(&names, ReadOptions::default()).unwrap();
        assert_eq!(table.ignored, ["Sample_Weight", "y_true", "labels"]);
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
        assert!(error.to_string().contains("rename `lable`?"), "{error}");
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
