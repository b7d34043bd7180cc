//! Which arrays of a file are the scores, labels and weights of which split.

use std::collections::BTreeMap;
use std::path::Path;

use ordercal::ScoreKind;

use crate::archive::{Entry, list};
use crate::columns::looks_meaningful;
use crate::error::{Error, Result};
use crate::nearest::nearest;
use crate::reader::LabelNeed;

/// How the names of arrays of scores end; `log_probs` comes before `probs`, which is an ending of it.
const SCORES: [(&str, ScoreKind); 3] = [
    ("log_probs", ScoreKind::LogProbs),
    ("logits", ScoreKind::Logits),
    ("probs", ScoreKind::Probs),
];

/// What an array is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Scores(ScoreKind),
    Labels,
    Weights,
    ClassNames,
}

/// The arrays of one split, as positions in the file's list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SplitArrays {
    /// The name of the split; `None` if the file has no splits.
    pub(crate) split: Option<String>,
    pub(crate) scores: Vec<(ScoreKind, usize)>,
    pub(crate) labels: Option<usize>,
    pub(crate) weights: Option<usize>,
    pub(crate) class_names: Option<usize>,
}

/// The arrays of a split, with one array of scores picked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PickedArrays {
    pub(crate) set: SplitArrays,
    pub(crate) scores: usize,
    pub(crate) kind: ScoreKind,
}

/// Parses a name such as `test_logits` into the split, empty if there is none, and the role.
fn role_of(name: &str) -> Option<(&str, Role)> {
    let scores = SCORES.map(|(ending, kind)| (ending, Role::Scores(kind)));
    let others = [
        ("labels", Role::Labels),
        ("weights", Role::Weights),
        ("class_names", Role::ClassNames),
        ("classes", Role::ClassNames),
    ];
    scores.into_iter().chain(others).find_map(|(ending, role)| {
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
    for (index, entry) in entries.iter().enumerate() {
        let Some((split, role)) = role_of(&entry.name) else {
            continue;
        };
        let set = sets.entry(split).or_insert_with(|| {
            order.push(split);
            SplitArrays::default()
        });
        match role {
            Role::Scores(kind) => set.scores.push((kind, index)),
            Role::Labels => set.labels = Some(index),
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

/// Picks a split and its scores.
///
/// If there is only one split, it need not be named. `hint` is the kind of an array called `logits`, which are
/// logits by default; arrays called `probs` or `log_probs` are what their name says.
pub(crate) fn pick(
    path: &Path,
    entries: &[Entry],
    split: Option<&str>,
    hint: Option<ScoreKind>,
    labels: LabelNeed,
) -> Result<PickedArrays> {
    let sets = sets(entries);
    let present = || list(entries.iter().map(Entry::describe));
    if sets.is_empty() {
        let wanted = split.map_or("logits".into(), |s| format!("{s}_logits"));
        let names = entries.iter().map(|e| e.name.as_str());
        let hint = nearest(&wanted, names).map_or(String::new(), |n| format!(" (rename `{n}`?)"));
        return Err(Error::NoScores {
            path: path.to_path_buf(),
            expected: format!(
                "an array named `logits`, `probs` or `log_probs`, or `SPLIT_logits` and so on{hint}"
            ),
            present: present(),
        });
    }
    let known: Vec<String> = sets.iter().filter_map(|s| s.split.clone()).collect();
    let set = match split {
        Some(split) => sets
            .iter()
            .find(|s| s.split.as_deref() == Some(split))
            .ok_or_else(|| unknown_split(path, split, known.clone()))?,
        None => match sets.iter().find(|s| s.split.is_none()) {
            Some(single) => single,
            None if sets.len() == 1 => &sets[0],
            None => {
                return Err(Error::SplitNeeded {
                    path: path.to_path_buf(),
                    known,
                });
            }
        },
    };
    if labels == LabelNeed::Required && set.labels.is_none() {
        let prefix = set
            .split
            .as_ref()
            .map_or(String::new(), |s| format!("{s}_"));
        return Err(Error::NoLabels {
            path: path.to_path_buf(),
            expected: format!("an array named `{prefix}labels`"),
            present: present(),
        });
    }
    let &(named, scores) = match (set.scores.as_slice(), hint) {
        ([only], _) => only,
        (several, Some(hint)) if several.iter().any(|(kind, _)| *kind == hint) => {
            let found = several.iter().find(|(kind, _)| *kind == hint);
            found.expect("it was just seen")
        }
        (several, _) => {
            return Err(Error::AmbiguousScores {
                path: path.to_path_buf(),
                first: entries[several[0].1].name.clone(),
                second: entries[several[1].1].name.clone(),
            });
        }
    };
    let kind = match named {
        ScoreKind::Logits => hint.unwrap_or(ScoreKind::Logits),
        said => said,
    };
    Ok(PickedArrays {
        set: set.clone(),
        scores,
        kind,
    })
}

/// The arrays that are not read although their names look like labels or weights. Those of other splits are not
/// meant to be read.
pub(crate) fn ignored(entries: &[Entry], pick: &PickedArrays) -> Vec<String> {
    let sets = sets(entries);
    let used = |index: usize| {
        let is = |set: &SplitArrays| {
            let arrays = [set.labels, set.weights, set.class_names];
            arrays.contains(&Some(index)) || set.scores.iter().any(|scores| scores.1 == index)
        };
        sets.iter().any(is)
    };
    let prefix = pick.set.split.as_deref().unwrap_or("");
    let other = |name: &str| {
        let mut splits = sets.iter().filter_map(|set| set.split.as_deref());
        splits.any(|split| split != prefix && name.starts_with(split))
    };
    (entries.iter().enumerate())
        .filter(|(index, entry)| {
            looks_meaningful(&entry.name) && !used(*index) && !other(&entry.name)
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
        pick(
            Path::new("f.npz"),
            &entries(names),
            split,
            hint,
            LabelNeed::IfPresent,
        )
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
        assert_eq!(role_of("my_val_labels"), Some(("my_val", Role::Labels)));
        assert_eq!(role_of("_logits"), None);
        assert_eq!(role_of("mylogits"), None);
        assert_eq!(role_of("arr_0"), None);
    }

    #[test]
    fn a_bundle_needs_a_split_and_a_single_set_none() {
        let bundle = ["calib_logits", "calib_labels", "test_logits", "class_names"];
        let pick = picked(&bundle, Some("calib"), None).unwrap();
        assert_eq!(
            (pick.scores, pick.set.labels, pick.set.class_names),
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
        assert!(
            error.to_string().contains("did you mean `test`?"),
            "{error}"
        );
        let error = picked(&["logits"], Some("test"), None).unwrap_err();
        assert!(error.to_string().contains("single set"), "{error}");
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
            ignored(&entries(names), &pick)
        };
        let names = ["logits", "labels", "sample_weight", "ids"];
        assert_eq!(of(&names, None), ["sample_weight"]);
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
        let text = error.to_string();
        assert!(text.contains("rename `logit`?"), "{text}");
        assert!(text.contains("`y` float32 (4×3)"), "{text}");
    }
}
