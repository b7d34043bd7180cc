//! Models of groups as safetensors files.
//!
//! Tensors are bytes of model files: `pooled`, and `group.0`, `group.1` and so on for the groups that have a map of their
//! own, which reads what the parent's gives. The header's metadata has `format`, `version` and `checksum` as in a model
//! file and, as JSON, `by` (the names of the columns), `groups` (for each map its key and weight) and `report`.

use std::collections::BTreeMap;
use std::path::Path;

use ::safetensors::SafeTensors;
use ordercal::Fitted;
use ordercal::grouped::{FittedGroups, GroupFit, GroupKey, GroupMap, GroupedModel, GroupsReport};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::model_file::{Contents, SavedModel, assemble, save, to_json};

/// The value of `format`.
pub(crate) const FORMAT: &str = "ordercal-groups";

/// The version of the format that this code writes, and the newest it reads.
const VERSION: u32 = 1;

/// Models of groups, with the names of the columns by which rows are divided.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SavedGroups {
    /// The columns.
    pub by: Vec<String>,
    /// The model of all rows, with the kind and the names of the classes.
    pub pooled: SavedModel,
    /// The models.
    pub model: GroupedModel,
    /// How the maps of groups were fitted.
    pub group_method: ordercal::Method,
    /// What the fit did.
    pub report: GroupsReport,
}

/// A map of a group in the header.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: GroupKey,
    weight: f64,
}

impl SavedGroups {
    /// Models as a fit returns them; `pooled` adds to the model of all rows what its file says besides.
    pub fn new(
        by: Vec<String>,
        how: &GroupFit,
        fitted: FittedGroups,
        pooled: impl FnOnce(SavedModel) -> SavedModel,
    ) -> Self {
        let FittedGroups { model, report, .. } = fitted;
        let all = Fitted {
            model: model.pooled().clone(),
            report: report.pooled.clone(),
        };
        Self {
            by,
            pooled: pooled(SavedModel::new(how.method.clone(), all)),
            model,
            group_method: how.group_method.clone(),
            report,
        }
    }

    /// The model of a group, as it is applied to scores.
    pub fn group(&self, key: &[String]) -> SavedModel {
        let model = self.model.model(key).clone();
        SavedModel {
            model,
            ..self.pooled.clone()
        }
    }

    /// Writes the file, atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        save(path, self.to_bytes())
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// If a model is one of the user's own, which cannot be stored.
    pub fn to_bytes(&self) -> ordercal::Result<Vec<u8>> {
        let mut tensors = vec![("pooled".to_owned(), self.pooled.to_bytes()?)];
        let mut entries = Vec::new();
        for (place, (key, map)) in self.model.maps().iter().enumerate() {
            let own = Fitted {
                model: map.own.clone(),
                report: self.report.pooled.clone(),
            };
            let own = SavedModel::new(self.group_method.clone(), own);
            tensors.push((format!("group.{place}"), own.to_bytes()?));
            entries.push(Entry {
                key: key.clone(),
                weight: map.weight,
            });
        }
        let metadata = [
            ("format", FORMAT.to_owned()),
            ("version", VERSION.to_string()),
            ("by", to_json(&self.by)),
            ("group_method", to_json(&self.group_method)),
            ("groups", to_json(&entries)),
            ("report", to_json(&self.report)),
        ];
        let tensors = tensors
            .into_iter()
            .map(|(name, bytes)| (name, "U8", bytes.len(), bytes));
        Ok(assemble(metadata, tensors))
    }

    /// Whether a file says that it holds models of groups.
    pub fn is_file(path: &Path) -> bool {
        crate::data_ref::read_all(path).is_ok_and(|bytes| Self::is_in(&bytes))
    }

    /// Whether bytes say that they are such a file.
    pub fn is_in(bytes: &[u8]) -> bool {
        let header = SafeTensors::read_metadata(bytes).ok();
        let metadata = header.and_then(|(_, header)| header.metadata().clone());
        metadata.is_some_and(|m| m.get("format").is_some_and(|format| format == FORMAT))
    }

    /// Reads a file and checks it.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or holds no models of groups.
    pub fn load(path: &Path) -> Result<Self> {
        Self::from_bytes(&crate::data_ref::read_all(path)?, path)
    }

    /// Reads the bytes of a file; `path` is its name in messages.
    ///
    /// # Errors
    /// If the bytes are damaged, or hold no models of groups.
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self> {
        let file = Contents::open(bytes, path, FORMAT, VERSION)?;
        let by: Vec<String> = file.json("by")?;
        let entries: Vec<Entry> = file.json("groups")?;
        let saved = |name: &str| {
            let tensor = file.tensors.tensor(name).map_err(|e| file.damaged(e))?;
            SavedModel::from_bytes(tensor.data(), path)
        };
        let pooled = saved("pooled")?;
        let mut maps = BTreeMap::new();
        for (place, entry) in entries.into_iter().enumerate() {
            let weight = entry.weight;
            let good = weight > 0.0 && weight <= 1.0;
            if !good || entry.key.is_empty() || entry.key.len() > by.len() {
                return Err(file.damaged(format!("group {place} in its header")));
            }
            let own = saved(&format!("group.{place}"))?.model;
            maps.insert(entry.key, GroupMap { own, weight });
        }
        let model = GroupedModel::new(pooled.model.clone(), maps);
        Ok(Self {
            by,
            model: model.map_err(|e| file.damaged(e))?,
            pooled,
            group_method: file.json("group_method")?,
            report: file.json("report")?,
        })
    }
}
