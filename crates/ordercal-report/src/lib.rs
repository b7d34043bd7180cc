//! Tables, figures and reports about calibration: numbers in, documents out.
//!
//! Nothing here reads or writes files or fits a model. A figure is a plain struct with a method `draw` that
//! gives an [`Svg`]; `to_png` (feature `png`, on by default) renders it with a built-in font. Colours come
//! from a [`Theme`].
//!
//! ```
//! use ordercal_report::{Theme, TransformCurve, TransformFigure, to_png};
//!
//! let figure = TransformFigure {
//!     title: "a temperature of 2".into(),
//!     input: "score".into(),
//!     curves: vec![TransformCurve { name: "ts".into(), slot: 1, points: vec![(-4.0, -2.0), (0.0, 0.0)] }],
//!     scores: None,
//! };
//! let svg = figure.draw(Theme::LIGHT)?;
//! assert!(svg.as_str().contains("a temperature of 2"));
//! assert!(to_png(&svg, 1.0)?.starts_with(b"\x89PNG"));
//! # Ok::<(), ordercal_report::Error>(())
//! ```

mod chart;
mod comparison;
mod error;
mod figure;
mod html;
mod json;
#[cfg(feature = "png")]
mod png;
mod result;
mod scale;
mod summary;
mod svg;
mod table;
mod theme;
mod verdict;
mod wrap;

pub use comparison::{Comparison, UNCALIBRATED};
pub use error::{Error, Result};
pub use figure::{
    Arrow, LineFigure, LinePanel, LinePoint, LineSeries, ReliabilityFigure, ReliabilityForm,
    ReliabilitySeries, ScoreHistogram, SimplexFigure, TransformCurve, TransformFigure, region_of,
};
pub use html::{BeforeAfter, DataSource, Report, ReportFigure};
pub use json::to_json;
#[cfg(feature = "png")]
pub use png::to_png;
pub use result::{DatasetResult, MethodResult};
pub use summary::{summary, tables};
pub use svg::Svg;
pub use table::{
    Cell, Column, FREE_NOTE, INFINITE_NOTE, KEPT_NOTE, MARK_NOTE, Table, TableRow, to_csv, to_html,
    to_latex, to_markdown, to_text,
};
pub use theme::Theme;
pub use verdict::{best_method, deciding_metric, verdict};
pub use wrap::wrap;
