//! Which arrays of a file are the scores, labels and weights of which split.

use std::collections::BTreeMap;
use std::path::Path;

use ordercal::ScoreKind;

use crate::archive::{Entry, describe};
use crate::choice::{LABELS, one_label};
use crate::columns::looks_meaningful;
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::reader::{LabelNeed, ReadOptions};

/// How the names of arrays of scores end; `log_probs` comes before `probs`, which is an ending of it.
const SCORES: [(&str, ScoreKind); 3] = [
    ("log_probs", ScoreKind::LogProbs),
    ("logits", ScoreKind::Logits),
    ("probs", ScoreKind::Probs),
];

/// Other usual names of the split `calib`.
const CALIB: [&str; 4] = ["calib", "val", "valid", "validation"];

/// What an array is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Scores(ScoreKind),
    /// With the name's place in the list of usual names.
    Labels(usize),
    Weights,
    ClassNames,
}

/// The arrays of one split, as positions in the file's list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SplitArrays {
    /// The name of the split; `None` if the file has no splits.
    pub(crate) split: Option<String>,
    pub(crate) scores: Vec<(ScoreKind, usize)>,
    /// Arrays that may be the labels, each with the place of its name in the list of usual ones.
    pub(crate) labels: Vec<(usize, usize)>,
    pub(crate) weights: Option<usize>,
    pub(crate) class_names: Option<usize>,
}

/// The arrays of a split, with one array of scores picked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PickedArrays {
    pub(crate) set: SplitArrays,
    pub(crate) scores: usize,
    pub(crate) labels: Option<usize>,
    pub(crate) groups: Option<usize>,
    pub(crate) kind: ScoreKind,
}

/// Parses a name such as `test_logits` into the split, empty if there is none, and the role.
fn role_of(name: &str) -> Option<(&str, Role)> {
    let scores = SCORES.map(|(ending, kind)| (ending, Role::Scores(kind)));
    let others = [
        ("weights", Role::Weights),
        ("class_names", Role::ClassNames),
        ("classes", Role::ClassNames),
    ];
    let labels = LABELS.iter().enumerate();
    let labels = labels.map(|(rank, ending)| (*ending, Role::Labels(rank.max(1))));
    let mut roles = scores.into_iter().chain(others).chain(labels);
    roles.find_map(|(ending, role)| {
        let split = name.strip_suffix(ending)?;
        if split.is_empty() {
            return Some(("", role));
        }
        let split = split.strip_suffix('_').filter(|s| !s.is_empty())?;
        Some((split, role))
    })
}

/// The splits that have scores, in the order of the file. `class_names` without a split is for all of them.
pub(crate) fn sets(entries: &[Entry]) -> Vec<SplitArrays> {
    let mut order = Vec::new();
    let mut sets: BTreeMap<&str, SplitArrays> = BTreeMap::new();
    let unnamed = unnamed(entries);
    for (index, entry) in entries.iter().enumerate() {
        let role = unnamed
            .and_then(|roles| Some(("", *roles.get(index)?)))
            .or_else(|| role_of(&entry.name));
        let Some((split, role)) = role else {
            continue;
        };
        let set = sets.entry(split).or_insert_with(|| {
            order.push(split);
            SplitArrays::default()
        });
        match role {
            Role::Scores(kind) => set.scores.push((kind, index)),
            Role::Labels(rank) => set.labels.push((rank, index)),
            Role::Weights => set.weights = Some(index),
            // `classes` may be a single number, how many there are.
            Role::ClassNames if entry.shape.len() != 1 && entry.name.ends_with("classes") => {}
            Role::ClassNames if set.class_names.is_some() && entry.name.ends_with("classes") => {}
            Role::ClassNames => set.class_names = Some(index),
        }
    }
    let shared = sets.get("").and_then(|set| set.class_names);
    order
        .into_iter()
        .filter_map(|name| {
            let mut set = sets.remove(name).filter(|set| !set.scores.is_empty())?;
            set.split = (!name.is_empty()).then(|| name.to_owned());
            set.class_names = set.class_names.or(shared);
            Some(set)
        })
        .collect()
}

/// The roles of arrays that numpy.savez saved without names: scores, then labels if there are two.
fn unnamed(entries: &[Entry]) -> Option<&'static [Role]> {
    const ROLES: [Role; 2] = [Role::Scores(ScoreKind::Logits), Role::Labels(0)];
    let numbered = |(index, entry): (usize, &Entry)| entry.name == format!("arr_{index}");
    let is_float = |entry: &Entry| entry.dtype.as_ref().is_ok_and(|dtype| dtype.is_float());
    let as_saved = entries.iter().enumerate().all(numbered);
    match entries {
        [scores] if as_saved && is_float(scores) => Some(&ROLES[..1]),
        [scores, labels] if as_saved && is_float(scores) && labels.shape.len() == 1 => Some(&ROLES),
        _ => None,
    }
}

/// The split that a name stands for: that of the name, or for `calib` one with another usual name.
pub(crate) fn find_split<'a>(known: &[&'a str], name: &str) -> Option<&'a str> {
    let named = |name: &str| known.iter().find(|split| **split == name).copied();
    match name {
        "calib" => CALIB.iter().find_map(|name| named(name)),
        other => named(other),
    }
}

/// The array of a name.
pub(crate) fn named(path: &Path, entries: &[Entry], name: &str) -> Result<usize> {
    let found = entries.iter().position(|entry| entry.name == name);
    found.ok_or_else(|| Error::missing_column(path, name, describe(entries)))
}

/// The labels of a file that holds nothing else of use, whatever its splits.
pub(crate) fn label_alone(path: &Path, entries: &[Entry]) -> Result<Option<usize>> {
    let labels =
        entries
            .iter()
            .enumerate()
            .filter_map(|(index, entry)| match role_of(&entry.name) {
                Some(("", Role::Labels(rank))) => Some((rank, index)),
                _ => None,
            });
    one_of(path, entries, labels.collect())
}

fn one_of(path: &Path, entries: &[Entry], labels: Vec<(usize, usize)>) -> Result<Option<usize>> {
    one_label(labels, |first, second| Error::AmbiguousLabels {
        path: path.to_path_buf(),
        first: entries[first].name.clone(),
        second: entries[second].name.clone(),
    })
}

/// Picks a split and its scores.
///
/// If there is only one split, it need not be named. The kind of an array called `logits` is that of the options, by
/// default logits; arrays called `probs` or `log_probs` are what their name says. Arrays that the options name go
/// before those with usual names.
pub(crate) fn pick(
    path: &Path,
    entries: &[Entry],
    split: Option<&str>,
    options: &ReadOptions,
) -> Result<PickedArrays> {
    let (hint, choice) = (options.kind, &options.columns);
    // A name may be that of all splits, without their prefix.
    let chosen = |name: &String| match split {
        Some(split) => {
            let prefixed = format!("{split}_{name}");
            named(path, entries, &prefixed).or_else(|_| named(path, entries, name))
        }
        None => named(path, entries, name),
    };
    let (set, scores, said) = match choice.scores.as_slice() {
        [] => {
            let set = pick_set(path, entries, split)?;
            let (kind, scores) = pick_scores(path, entries, &set, hint)?;
            (set, scores, kind)
        }
        [name] => {
            let scores = chosen(name)?;
            let kind = match role_of(&entries[scores].name) {
                Some((_, Role::Scores(kind))) => kind,
                _ => ScoreKind::Logits,
            };
            let set = pick_set(path, entries, split).ok();
            let set = set.filter(|set| set.scores.iter().any(|(_, index)| *index == scores));
            (set.unwrap_or_default(), scores, kind)
        }
        [_, second, ..] => {
            return Err(Error::missing_column(
                path,
                second,
                "arrays, of which one holds all scores",
            ));
        }
    };
    let labels = match choice.soft_labels.first().or(choice.label.as_ref()) {
        _ if options.labels == LabelNeed::Ignored => None,
        Some(name) => Some(chosen(name)?),
        None => one_of(path, entries, set.labels.clone())?,
    };
    if options.labels == LabelNeed::Required && labels.is_none() {
        let prefix = set
            .split
            .as_ref()
            .map_or(String::new(), |s| format!("{s}_"));
        let expected =
            format!("an array named `{prefix}labels`, or --label-column with the name of another");
        return Err(Error::no_labels(path, expected, describe(entries)));
    }
    Ok(PickedArrays {
        set,
        scores,
        labels,
        groups: choice.groups.as_ref().map(chosen).transpose()?,
        kind: match said {
            ScoreKind::Logits => hint.unwrap_or(ScoreKind::Logits),
            said => said,
        },
    })
}

fn pick_set(path: &Path, entries: &[Entry], split: Option<&str>) -> Result<SplitArrays> {
    let sets = sets(entries);
    if sets.is_empty() {
        return Err(no_scores(path, entries, split));
    }
    let known: Vec<String> = sets.iter().filter_map(|s| s.split.clone()).collect();
    let wanted = match split {
        Some(split) => {
            let names: Vec<&str> = known.iter().map(String::as_str).collect();
            let found = find_split(&names, split);
            Some(found.ok_or_else(|| unknown_split(path, split, known.clone()))?)
        }
        None => None,
    };
    let found = sets.iter().find(|set| set.split.as_deref() == wanted);
    match (found, sets.as_slice()) {
        (Some(set), _) => Ok(set.clone()),
        (None, [only]) => Ok(only.clone()),
        (None, _) => Err(Error::SplitNeeded {
            path: path.to_path_buf(),
            known,
        }),
    }
}

fn pick_scores(
    path: &Path,
    entries: &[Entry],
    set: &SplitArrays,
    hint: Option<ScoreKind>,
) -> Result<(ScoreKind, usize)> {
    match (set.scores.as_slice(), hint) {
        ([only], _) => Ok(*only),
        (several, Some(hint)) if several.iter().any(|(kind, _)| *kind == hint) => {
            let found = several.iter().find(|(kind, _)| *kind == hint);
            Ok(*found.expect("it was just seen"))
        }
        (several, _) => Err(Error::AmbiguousScores {
            path: path.to_path_buf(),
            first: entries[several[0].1].name.clone(),
            second: entries[several[1].1].name.clone(),
        }),
    }
}

/// The error for a file without an array of a usual name, with the names to save it under.
fn no_scores(path: &Path, entries: &[Entry], split: Option<&str>) -> Error {
    let prefix = split.map_or(String::new(), |s| format!("{s}_"));
    let is_matrix =
        |e: &&Entry| e.shape.len() == 2 && e.dtype.as_ref().is_ok_and(|dtype| dtype.is_float());
    let scores = entries.iter().find(is_matrix);
    let near = nearest(
        &format!("{prefix}logits"),
        entries.iter().map(|e| e.name.as_str()),
    );
    let hint = match (near, scores) {
        (Some(near), _) => format!(" (rename `{near}`?)"),
        (None, Some(scores)) => {
            let fits = |e: &&Entry| e.shape.len() == 1 && e.shape[0] == scores.shape[0];
            let labels = entries.iter().find(fits);
            let labels = labels.map_or(String::new(), |e| format!(", {prefix}labels={}", e.name));
            format!(
                "; save them as numpy.savez(…, {prefix}logits={}{labels}), or name them with --score-columns {} and \
                 --label-column",
                scores.name, scores.name
            )
        }
        (None, None) => String::new(),
    };
    Error::NoScores {
        path: path.to_path_buf(),
        expected: format!(
            "an array named `logits`, `probs` or `log_probs`, or `SPLIT_logits` and so on{hint}"
        ),
        present: describe(entries),
    }
}

/// The arrays that are not read although their names look like labels or weights. Those of other splits are not
/// meant to be read, nor other labels than those that the user chose.
pub(crate) fn ignored(
    entries: &[Entry],
    pick: &PickedArrays,
    options: &ReadOptions,
) -> Vec<String> {
    if options.labels == LabelNeed::Ignored {
        return Vec::new();
    }
    let chosen = options.columns.label.is_some() || !options.columns.soft_labels.is_empty();
    let sets = sets(entries);
    let used = |index: usize| {
        let is = |set: &SplitArrays| {
            let arrays = [set.weights, set.class_names];
            let labels = set.split != pick.set.split && set.labels.iter().any(|l| l.1 == index);
            arrays.contains(&Some(index))
                || labels
                || set.scores.iter().any(|scores| scores.1 == index)
        };
        [Some(pick.scores), pick.labels].contains(&Some(index)) || sets.iter().any(is)
    };
    let prefix = pick.set.split.as_deref().unwrap_or("");
    let other = |name: &str| {
        let mut splits = sets.iter().filter_map(|set| set.split.as_deref());
        splits.any(|split| split != prefix && name.starts_with(split))
    };
    (entries.iter().enumerate())
        .filter(|(index, entry)| {
            looks_meaningful(&entry.name, chosen) && !used(*index) && !other(&entry.name)
        })
        .map(|(_, entry)| entry.name.clone())
        .collect()
}

/// The error for a split that does not exist, with the nearest one that does.
pub(crate) fn unknown_split(path: &Path, split: &str, known: Vec<String>) -> Error {
    let hint = match nearest(split, known.iter().map(String::as_str)) {
        _ if known.is_empty() => {
            "the file holds a single set; leave out the `#` and what follows".into()
        }
        Some(near) => format!("did you mean `{near}`? The splits are {}", known.join(", ")),
        None => format!("the splits are {}", known.join(", ")),
    };
    Error::UnknownSplit {
        path: path.to_path_buf(),
        split: split.to_owned(),
        hint,
        known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ElementType;
    use crate::choice::ColumnChoice;

    fn entries(names: &[&str]) -> Vec<Entry> {
        names
            .iter()
            .map(|&name| Entry {
                name: name.into(),
                dtype: Ok(ElementType::F32),
                shape: vec![4, 3],
            })
            .collect()
    }

    fn picked(
        names: &[&str],
        split: Option<&str>,
        hint: Option<ScoreKind>,
    ) -> Result<PickedArrays> {
        let options = ReadOptions::default().with_kind(hint);
        pick(Path::new("f.npz"), &entries(names), split, &options)
    }

    #[test]
    fn labels_splits_and_unnamed_arrays_have_other_usual_names() {
        for name in LABELS {
            let pick = picked(&["logits", name], None, None).unwrap();
            assert_eq!(pick.labels, Some(1), "{name}");
        }
        let error = picked(&["logits", "y", "target"], None, None).unwrap_err();
        assert!(matches!(error, Error::AmbiguousLabels { .. }), "{error}");
        for split in CALIB {
            let names = [format!("{split}_probs"), "test_probs".to_owned()];
            let names = [names[0].as_str(), names[1].as_str()];
            let pick = picked(&names, Some("calib"), None).unwrap();
            assert_eq!((pick.scores, pick.set.split.as_deref()), (0, Some(split)));
        }
        let mut saved = entries(&["arr_0", "arr_1"]);
        saved[1].shape = vec![4];
        let options = ReadOptions::default();
        let pick = pick(Path::new("f.npz"), &saved, None, &options).unwrap();
        assert_eq!((pick.scores, pick.labels), (0, Some(1)));
    }

    #[test]
    fn arrays_can_be_chosen() {
        let names = ["X_test", "y_test", "extra"];
        let choice = ColumnChoice::default().with_label("y_test");
        let options =
            ReadOptions::default().with_columns(choice.with_scores(["X_test"].map(String::from)));
        let pick = pick(Path::new("f.npz"), &entries(&names), None, &options).unwrap();
        assert_eq!((pick.scores, pick.labels), (0, Some(1)));
        let error = picked(&names, None, None).unwrap_err();
        let hint = "--score-columns X_test";
        assert!(matches!(error, Error::NoScores { expected, .. } if expected.contains(hint)));
    }

    #[test]
    fn names_say_split_and_role() {
        assert_eq!(
            role_of("logits"),
            Some(("", Role::Scores(ScoreKind::Logits)))
        );
        assert_eq!(
            role_of("test_log_probs"),
            Some(("test", Role::Scores(ScoreKind::LogProbs)))
        );
        assert_eq!(role_of("my_val_labels"), Some(("my_val", Role::Labels(1))));
        assert_eq!(role_of("_logits"), None);
        assert_eq!(role_of("mylogits"), None);
        assert_eq!(role_of("arr_0"), None);
    }

    #[test]
    fn a_bundle_needs_a_split_and_a_single_set_none() {
        let bundle = ["calib_logits", "calib_labels", "test_logits", "class_names"];
        let pick = picked(&bundle, Some("calib"), None).unwrap();
        assert_eq!(
            (pick.scores, pick.labels, pick.set.class_names),
            (0, Some(1), Some(3))
        );
        let known = picked(&bundle, None, None).unwrap_err();
        assert!(matches!(known, Error::SplitNeeded { known, .. } if known == ["calib", "test"]));
        assert_eq!(picked(&["logits", "labels"], None, None).unwrap().scores, 0);
        assert_eq!(
            picked(&["val_labels", "val_probs"], None, None)
                .unwrap()
                .scores,
            1
        );
    }

    #[test]
    fn an_unknown_split_suggests_the_nearest() {
        let error = picked(&["calib_logits", "test_logits"], Some("tset"), None).unwrap_err();
        assert!(matches!(error, Error::UnknownSplit { hint, .. } if hint.contains("`test`?")));
        let error = picked(&["logits"], Some("test"), None).unwrap_err();
        assert!(matches!(error, Error::UnknownSplit { known, .. } if known.is_empty()));
    }

    #[test]
    fn names_and_hints_say_the_kind() {
        use ScoreKind::{LogProbs, Logits, Probs};
        assert_eq!(picked(&["logits"], None, None).unwrap().kind, Logits);
        assert_eq!(picked(&["logits"], None, Some(Probs)).unwrap().kind, Probs);
        assert_eq!(picked(&["probs"], None, Some(Logits)).unwrap().kind, Probs);
        assert_eq!(picked(&["log_probs"], None, None).unwrap().kind, LogProbs);
        let both = ["logits", "probs"];
        assert!(matches!(
            picked(&both, None, None),
            Err(Error::AmbiguousScores { .. })
        ));
        assert_eq!(picked(&both, None, Some(Probs)).unwrap().scores, 1);
    }

    #[test]
    fn classes_are_names_too() {
        let one = |name: &str| Entry {
            name: name.into(),
            dtype: Ok(ElementType::Bytes(1)),
            shape: vec![3],
        };
        let mut list = entries(&["logits"]);
        list.push(one("classes"));
        assert_eq!(sets(&list)[0].class_names, Some(1));
        list.insert(1, one("class_names"));
        assert_eq!(sets(&list)[0].class_names, Some(1));
        list.swap(1, 2);
        assert_eq!(sets(&list)[0].class_names, Some(2));
        // A single number.
        let mut list = entries(&["logits", "classes"]);
        list[1].shape = Vec::new();
        assert_eq!(sets(&list)[0].class_names, None);
    }

    #[test]
    fn arrays_that_look_meaningful_and_are_not_read_are_listed() {
        let of = |names: &[&str], split| {
            let pick = picked(names, split, None).unwrap();
            ignored(&entries(names), &pick, &ReadOptions::default())
        };
        let names = ["logits", "labels", "sample_weight", "ids"];
        assert_eq!(of(&names, None), ["sample_weight"]);
        assert_eq!(of(&["logits", "labels", "y"], None), ["y"]);
        assert_eq!(of(&["logits", "labels", "weights"], None), [""; 0]);
        let names = [
            "calib_logits",
            "calib_labels",
            "test_logits",
            "test_labels",
            "test_sample_weight",
            "weights",
        ];
        assert_eq!(of(&names, Some("calib")), ["weights"]);
        assert_eq!(of(&names, Some("test")), ["test_sample_weight", "weights"]);
    }

    #[test]
    fn a_file_without_scores_lists_what_it_holds() {
        let error = picked(&["logit", "y"], None, None).unwrap_err();
        assert!(
            matches!(&error, Error::NoScores { expected, present, .. }
                if expected.contains("`logit`?") && present.ends_with("`y` float32 (4×3)")),
            "{error}"
        );
    }
}
