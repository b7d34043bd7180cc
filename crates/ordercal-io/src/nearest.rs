//! Suggestions for mistyped names.

/// The candidate with the smallest edit distance to `wanted`; `None` if that is above 2 and above a third of the
/// candidate's length, or as many as there are letters, where a suggestion would not be plausible.
pub fn nearest<'a>(wanted: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .map(|candidate| (edits(wanted, candidate), candidate))
        .filter(|(edits, candidate)| {
            let (length, typed) = (candidate.chars().count(), wanted.chars().count());
            *edits <= (length / 3).max(2) && *edits < length.max(typed)
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// The Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    // Names of very different lengths are no typos of each other, and very long ones would take too long.
    if a.len().abs_diff(b.len()) > 8 || a.len() > 256 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let kept = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = kept.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typos_find_their_name() {
        let names = ["calib", "test", "validation"];
        assert_eq!(nearest("clib", names.into_iter()), Some("calib"));
        assert_eq!(nearest("tests", names.into_iter()), Some("test"));
        assert_eq!(nearest("valdiation", names.into_iter()), Some("validation"));
        assert_eq!(nearest("something", names.into_iter()), None);
        // No letter in common.
        assert_eq!(nearest("zz", ["ks", "ece"].into_iter()), None);
        assert_eq!(nearest("kx", ["ks", "ece"].into_iter()), Some("ks"));
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
