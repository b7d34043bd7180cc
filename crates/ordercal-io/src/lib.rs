//! Reads scores and labels from files, and writes calibrated scores and fitted models.
//!
//! | files | hold | written |
//! |---|---|---|
//! | `.npy` | one array; labels are in a second file | yes |
//! | `.npz`, `.safetensors` | arrays `logits`, `labels`, or `SPLIT_logits`, `SPLIT_labels`, … | yes |
//! | `.csv`, `.tsv` | columns `label`, `logit_0`, `logit_1`, … | yes |
//! | `.jsonl`, `.ndjson` | objects with the same keys, or a list `logits` | yes |
//! | `.parquet`, `.arrow`, `.arrows`, `.feather`, `.ipc` | the same columns, or a list column `logits` | yes |
//! | `.p`, `.pkl`, `.pickle` | numpy arrays in tuples, lists and dicts; nothing is executed | no |
//! | `.pt`, `.pth` | tensors that PyTorch saved; nothing is executed | no |
//!
//! Each of them may be compressed (`.gz`, `.zst`), and may come through a pipe ([`STDIN`]). Where names do not tell
//! what columns and arrays are, [`ColumnChoice`] does. One column of scores is that of the second of two classes.
//!
//! Instead of `logits` there may be `probs` or `log_probs`. What the scores are is said by such a name or by the
//! caller, never guessed from the values.
//!
//! [`load`] reads a whole file, [`RowReader`] reads it in chunks, and [`ScoreWriter`] writes in chunks.
//! [`SavedModel`] is a fitted model in a file of its own. Every output goes through [`AtomicFile`]: it is complete or
//! not there. In messages, rows and columns are counted from 0, whatever the format; see [`enum@Error`].
//!
//! ```
//! use ordercal_io::{DataRef, load};
//!
//! let dir = tempfile::tempdir().unwrap();
//! let path = dir.path().join("scores.csv");
//! std::fs::write(&path, "label,logit_0,logit_1\n0,2.0,-1.0\n1,0.5,0.75\n").unwrap();
//! let data = load(&DataRef::parse(&path), None)?;
//! let dataset = data.dataset()?;
//! assert_eq!((dataset.rows(), dataset.classes()), (2, 2));
//! # Ok::<(), ordercal_io::Error>(())
//! ```
//!
//! # Adding a format
//! Say it is called foo. Three files change:
//! 1. `src/foo.rs` is new. Its `CODEC` says how the format is read, as arrays with names or as a table of columns,
//!    and how it is written.
//! 2. `src/formats.rs` gets one line in the table of formats: name, endings and `foo::CODEC`. Dispatch, messages
//!    and help texts follow from the table.
//! 3. `src/lib.rs` gets `mod foo;` and a line in the table above, which a test compares with the formats.

mod archive;
mod array;
mod array_reader;
#[cfg(feature = "parquet")]
mod arrow;
#[cfg(feature = "parquet")]
mod arrow_check;
#[cfg(feature = "arrow")]
mod arrow_columns;
mod atomic;
#[cfg(feature = "arrow")]
mod batch_reader;
#[cfg(feature = "arrow")]
mod batch_results;
#[cfg(feature = "parquet")]
mod batch_writer;
#[cfg(feature = "parquet")]
mod batches;
mod bundle;
mod choice;
mod columns;
mod csv;
mod data_ref;
mod error;
mod formats;
mod grouped_file;
mod ids;
mod inspect;
mod jsonl;
mod labels;
#[cfg(feature = "arrow")]
mod list_column;
mod loaded;
mod machine;
mod model_file;
mod nearest;
mod npy;
mod npz;
mod packing;
#[cfg(feature = "parquet")]
mod parquet;
mod pickle;
mod reader;
mod row_chunk;
mod row_source;
mod safetensors;
mod spool;
mod stored_zip;
#[cfg(test)]
mod tests;
mod text_table;
mod torch;
mod whole_array;
mod writer;

pub use atomic::{AtomicFile, discard_pending, write_atomically};
#[cfg(feature = "arrow")]
pub use batch_reader::BatchReader;
#[cfg(feature = "arrow")]
pub use batch_results::BatchResults;
pub use choice::ColumnChoice;
pub use data_ref::DataRef;
pub use error::{Error, Result};
pub use formats::{Format, readable_endings, writable_endings};
pub use grouped_file::SavedGroups;
pub use ids::{IdType, IdValues};
pub use inspect::{Contents, SetInfo, inspect};
#[cfg(feature = "arrow")]
pub use list_column::ListColumn;
pub use loaded::{LoadedData, load, load_pair};
pub use machine::default_memory_limit;
pub use model_file::{ClassType, FORMAT_VERSION, SavedModel};
pub use nearest::nearest;
pub use reader::{LabelNeed, ReadOptions, RowReader};
pub use row_chunk::{RowChunk, ScoreMatrix};
pub use spool::{STDIN, STDOUT};
pub use writer::{OutputSpec, OutputType, ScoreWriter};
