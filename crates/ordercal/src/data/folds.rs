//! Random folds for cross validation.

use std::collections::{BTreeMap, HashMap};

use crate::error::{Error, Result};
use crate::rng::Rng;

/// A random partition of rows into folds whose sizes differ by at most one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folds {
    count: usize,
    /// The fold of each row.
    fold_of: Vec<u32>,
}

impl Folds {
    /// Assigns rows to folds at random.
    ///
    /// # Parameters
    /// - `rows`: N, the number of rows.
    /// - `count`: the number of folds, from 2 to N.
    /// - `seed`: the seed of the assignment.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if there are fewer than 2 folds, or fewer rows than folds.
    pub fn new(rows: usize, count: usize, seed: u64) -> Result<Self> {
        if count < 2 || count > rows {
            return Err(Error::invalid(
                "folds",
                count,
                "at least 2, and no more than there are rows",
            ));
        }
        let mut fold_of: Vec<u32> = (0..rows).map(|row| (row % count) as u32).collect();
        Rng::new(seed).shuffle(&mut fold_of);
        Ok(Self { count, fold_of })
    }

    /// Assigns rows to folds so that every label is as evenly represented as possible (stratified folds).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn stratified(labels: &[u32], count: usize, seed: u64) -> Result<Self> {
        let mut folds = Self::new(labels.len(), count, seed)?;
        let mut rows: Vec<usize> = (0..labels.len()).collect();
        Rng::new(seed).shuffle(&mut rows);
        rows.sort_by_key(|&row| labels[row]);
        for (place, row) in rows.into_iter().enumerate() {
            folds.fold_of[row] = (place % count) as u32;
        }
        Ok(folds)
    }

    /// Assigns groups of rows to folds at random, so that a group is in one fold and folds are as equal in size as the
    /// groups let them be: the largest groups first, each to the fold that is smallest by then.
    ///
    /// # Parameters
    /// - `groups`: for each row the number of its group.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if there are fewer than 2 folds, or fewer groups than folds.
    pub fn grouped(groups: &[u32], count: usize, seed: u64) -> Result<Self> {
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for group in groups {
            *sizes.entry(*group).or_default() += 1;
        }
        if count < 2 || count > sizes.len() {
            return Err(Error::invalid(
                "folds",
                count,
                "at least 2, and no more than there are groups of rows",
            ));
        }
        let mut order: Vec<(u32, usize)> = sizes.into_iter().collect();
        Rng::new(seed).shuffle(&mut order);
        order.sort_by_key(|&(_, size)| std::cmp::Reverse(size));
        let mut filled = vec![0; count];
        let mut fold_of_group = HashMap::new();
        for (group, size) in order {
            let smallest = (0..count).min_by_key(|&fold| filled[fold]).unwrap_or(0);
            filled[smallest] += size;
            fold_of_group.insert(group, smallest as u32);
        }
        let fold_of = groups.iter().map(|group| fold_of_group[group]).collect();
        Ok(Self { count, fold_of })
    }

    /// Folds that were assigned in another way.
    ///
    /// # Parameters
    /// - `fold_of`: the fold of each row, from 0 to `count` − 1. A fold may have no rows.
    /// - `count`: the number of folds, at least 2.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if there are fewer than 2 folds, or a fold is out of range.
    pub fn assigned(fold_of: Vec<u32>, count: usize) -> Result<Self> {
        if count < 2 {
            return Err(Error::invalid("folds", count, "at least 2"));
        }
        match fold_of.iter().find(|&&fold| fold as usize >= count) {
            Some(&fold) => Err(Error::invalid("fold", fold, "0 to the number of folds - 1")),
            None => Ok(Self { count, fold_of }),
        }
    }

    /// The folds of the given rows.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        Self {
            count: self.count,
            fold_of: rows.iter().map(|&row| self.fold_of[row]).collect(),
        }
    }

    /// The number of folds in the paper: 5, or 3 from 1000 classes on, but at most half the rows and at least 2.
    pub fn usual(rows: usize, classes: usize) -> usize {
        let count = if classes >= 1000 { 3 } else { 5 };
        count.min(rows / 2).max(2)
    }

    /// The number of folds.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.fold_of.len()
    }

    /// The fold that a row belongs to.
    pub(crate) fn fold_of(&self, row: usize) -> usize {
        self.fold_of[row] as usize
    }

    /// The rows of a fold, in ascending order.
    pub fn held_out(&self, fold: usize) -> Vec<usize> {
        self.which(|of| of as usize == fold)
    }

    /// The rows of all other folds, in ascending order.
    pub fn kept(&self, fold: usize) -> Vec<usize> {
        self.which(|of| of as usize != fold)
    }

    fn which(&self, wanted: impl Fn(u32) -> bool) -> Vec<usize> {
        let rows = self.fold_of.iter().enumerate();
        rows.filter(|(_, of)| wanted(**of))
            .map(|(row, _)| row)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_is_held_out_once() {
        let folds = Folds::new(103, 5, 7).unwrap();
        let mut all: Vec<usize> = (0..5).flat_map(|fold| folds.held_out(fold)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..103).collect::<Vec<_>>());
        assert!((0..5).all(|fold| (20..=21).contains(&folds.held_out(fold).len())));
        assert_eq!(folds, Folds::new(103, 5, 7).unwrap());
        assert_ne!(folds, Folds::new(103, 5, 8).unwrap());
    }

    #[test]
    fn labels_are_spread_evenly_if_asked_for() {
        let labels: Vec<u32> = (0..100).map(|row| u32::from(row % 10 == 0)).collect();
        let folds = Folds::stratified(&labels, 5, 3).unwrap();
        for fold in 0..5 {
            let rows = folds.held_out(fold);
            assert_eq!(rows.len(), 20);
            assert_eq!(rows.iter().filter(|&&row| labels[row] == 1).count(), 2);
        }
    }

    #[test]
    fn groups_are_in_one_fold() {
        let groups: Vec<u32> = (0..97).map(|row| row * row % 23).collect();
        let folds = Folds::grouped(&groups, 4, 9).unwrap();
        for fold in 0..4 {
            let held_out = folds.held_out(fold);
            assert!((18..=31).contains(&held_out.len()), "{}", held_out.len());
            let of = |rows: Vec<usize>| rows.into_iter().map(|row| groups[row]);
            let inside: HashSet<u32> = of(held_out).collect();
            assert!(of(folds.kept(fold)).all(|group| !inside.contains(&group)));
        }
        assert_eq!(folds, Folds::grouped(&groups, 4, 9).unwrap());
        assert_ne!(folds, Folds::grouped(&groups, 4, 8).unwrap());
        let refused = Folds::grouped(&[3, 3, 3, 1], 3, 9).unwrap_err();
        assert!(
            matches!(refused, Error::InvalidParameter { name: "folds", expected, .. } if expected.ends_with("groups of rows"))
        );
    }

    #[test]
    fn too_few_or_too_many_folds_are_refused() {
        for (rows, count) in [(10, 0), (10, 1), (3, 4)] {
            let refused = Folds::new(rows, count, 1).unwrap_err();
            assert!(matches!(
                refused,
                Error::InvalidParameter { name: "folds", .. }
            ));
        }
    }
}
